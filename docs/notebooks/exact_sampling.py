# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Exact sampling
#
# For physicists: a distribution that can be solved exactly, sampled on minibatches, and compared with the solution. It
# takes about a minute on two cores.
#
# The linear perceptron has $\ell_i = (y_i - \theta \cdot x_i)^2/2$, so the distribution of paths
#
# $$\pi(\Theta) \propto \prod_t e^{-|\theta_{t+1} - \theta_t|^2/2\sigma^2}\; e^{-s \sum_t L(\theta_t)}$$
#
# is Gaussian, and everything about it is known: see [Exact results](../theory/theory.md#exact-results).

# %%
import matplotlib.pyplot as plt
import numpy as np

import trajens as tj

data = tj.datasets.perceptron(noise=1.0)  # 256 points on a line, with noise in their labels
problem = data.problem()
tau, sigma = 4, 0.1
exact = tj.exact.perceptron(data.x, data.y, tau, sigma, s=150.0)
print(f"loss per model {exact.loss:.6f}, of which {exact.excess:.6f} above the minimum")

# %% [markdown]
# ## Loss against s
#
# Several s side by side, 64 chains each: `s` has one number per chain. Error bars are over chains.

# %%
values = np.array([10.0, 30.0, 100.0, 300.0])
chains = 64
target = tj.Target(problem, tau, sigma, s=np.repeat(values, chains), prior=None)
run = tj.sample(target, epochs=12_000, chains=chains * len(values), acceptance=tj.Penalty(32), records=100)

# %%
for i, s in enumerate(values):
    summary = run.summary(chains=range(i * chains, (i + 1) * chains))
    right = tj.exact.perceptron(data.x, data.y, tau, sigma, s).loss
    z = (summary["loss"] - right) / summary["loss_stderr"]
    print(
        f"s = {s:3.0f}: sampled {summary['loss']:.5f} +- {summary['loss_stderr']:.5f}, exact {right:.5f}, z = {z:+.1f}"
    )
    print(
        f"         on {summary['batch_size']:.0f} of 256 examples per decision, acceptance {summary['acceptance']:.2f}"
    )

# %% [markdown]
# ## The whole path, not only its loss
#
# The last paths of the chains at one s are independent samples of 8 numbers (4 models of 2 parameters). Their
# covariance against the exact one, entry by entry; the line is where they are equal, bars are standard errors of 64
# samples. All models share the centre of their path, which varies most, so all entries are off together: this is one
# deviation of about one standard error, not many.

# %%
s = 100.0
exact = tj.exact.perceptron(data.x, data.y, tau, sigma, s)
paths = np.asarray(run.paths)[2 * chains : 3 * chains].reshape(chains, -1)
right = exact.covariance.reshape(tau * 2, tau * 2)
sampled = np.cov(paths.T)
variance = np.diag(right)
error = np.sqrt((right**2 + np.outer(variance, variance)) / (chains - 1))
fig, axes = plt.subplots(figsize=(4.5, 4))
axes.errorbar(right.ravel(), sampled.ravel(), error.ravel(), fmt=".", alpha=0.6)
ends = [right.min(), right.max()]
axes.plot(ends, ends, color="0.3", lw=1)
axes.set(xlabel="exact covariance", ylabel="sampled")
fig.tight_layout()

# %% [markdown]
# ## What minibatches do to the distribution
#
# A decision on few examples has an error. The run audits its own decisions: it samples s (1 + `tilt_error`), to first
# order, and plans its batches for a hundredth. The paper's own test has no such plan; on these noisy labels its error
# shows as a distribution that is too cold ([erratum 2](../theory/errata.md#2-the-finite-population-factor)).

# %%
one = tj.Target(problem, tau, sigma, s=150.0, prior=None)
for name, test in {"Penalty()": tj.Penalty(32), "paper_test": tj.paper_test(32)}.items():
    summary = tj.sample(one, epochs=10_000, chains=256, acceptance=test, records=100).summary()
    right = tj.exact.perceptron(data.x, data.y, tau, sigma, 150.0)
    bias, error = (summary["loss"] - right.loss) / right.excess, summary["loss_stderr"] / right.excess
    batch = summary["batch_size"]
    print(f"{name:10} bias of the excess loss {bias:+7.2%} +- {error:.2%}, {batch:.0f} examples per decision")

# %% [markdown]
# With the 4096 chains of `trajens figure acceptance --scale paper` the errors are 0.15 %, and every test shows what
# it does: [Within a tolerance](../theory/tolerance.md). Loops of your own around the sampler: [Stepping by
# hand](../howto/stepping.md); a move or a test of your own, compared with these results:
# [Extending](../howto/extending/move.md).
