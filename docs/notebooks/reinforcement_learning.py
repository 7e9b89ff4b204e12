# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Reinforcement learning
#
# Reinforcement-learning policies instead of supervised networks: the loss of an episode is minus its return, and a
# decision between two policies plays as many fresh episodes as its noise asks for. It takes about a minute on two
# cores.
#
# Evolution strategies are as good or better at this ([what was measured](../results/policies.md)); a path of policies,
# however, is sampled from a stated distribution.

# %%
import matplotlib.pyplot as plt
import numpy as np

import trajens as tj
from trajens import rl

pole = rl.environment("CartPole-v1")
policy = tj.models.linear(4, 2)  # four observations, two actions: the larger output is taken
stream = rl.problem(pole, policy)
print(stream)

# %% [markdown]
# ## Sample policies
#
# The loss is 0 for the best return, 500, and 1 for the worst. s rises by equal factors, from where returns hardly
# matter to where a return of 17 steps more is preferred by a factor of $e$, and is held there.

# %%
chains = 4
s = tj.schedule.exponential(3.0, 30.0, epochs=1200)
target = tj.Target(stream, tau=4, sigma=0.5, s=s, prior=1.0)
run = tj.sample(
    target, epochs=1600, burn_in=1200, chains=chains, acceptance=tj.Penalty(8), records=40, tune=True, seed=0
)
low, high = pole.returns
returns = high - (high - low) * np.asarray(run.records["loss"])
print("return per model, first and last record of each chain:", returns[:, [0, -1]].round().tolist())

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3))
for chain in range(chains):
    left.plot(run.records["steps_used"][chain], returns[chain], label=f"chain {chain}")
    right.loglog(s(run.records["epoch"][chain]), run.records["batch_size"][chain], ".")
left.set(xlabel="steps of the environment, in decisions", ylabel="return per model")
left.legend()
right.set(xlabel="s", ylabel="episodes per decision")
fig.tight_layout()

# %% [markdown]
# ## Try them
#
# In fresh episodes: single models, their vote, and the mean of their outputs, in the same 200 episodes, with standard
# errors.

# %%
for chain in range(chains):
    scores = rl.scores(pole, rl.episodes_of(stream).policy, run.paths[chain], episodes=200)
    print(chain, {how: f"{score.mean:.0f} +- {score.stderr:.0f}" for how, score in scores.items()})

# %% [markdown]
# ## What it cost
#
# Steps of the environment are counted per chain: in decisions, to measure returns at records, and to audit decisions.

# %%
for name in ("steps_used", "steps_measured", "steps_audited"):
    if name in run.records:
        print(f"{name:15} {run.records[name][:, -1]}")

# %% [markdown]
# On the command line: `trajens train CartPole-v1 --tau 16 --out runs/pole`. Environments of your own, of gymnax, and
# comparisons with evolution strategies: [Reinforcement learning](../howto/rl.md).
