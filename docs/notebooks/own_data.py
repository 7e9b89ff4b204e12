# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Your own data
#
# A table, an ensemble that is trained without gradients, and how sure it is. It takes about half a minute on two
# cores.
#
# The data are made up, so that the right answer is known: two interleaved half circles, with noise.

# %%
import matplotlib.pyplot as plt
import numpy as np

import trajens as tj

rng = np.random.default_rng(0)


def moons(n):
    """Two classes of points in the plane."""
    y = rng.integers(0, 2, n)
    angle = np.pi * rng.uniform(size=n)
    x = np.stack([np.where(y, 1 - np.cos(angle), np.cos(angle)), np.where(y, 0.5 - np.sin(angle), np.sin(angle))], 1)
    return (x + 0.2 * rng.standard_normal((n, 2))).astype(np.float32), y


x, y = moons(1000)
test_x, test_y = moons(1000)
x.shape, y[:10]

# %% [markdown]
# With a file, `data = tj.datasets.load("points.npz")` (or `.csv`, or IDX) gives `data.x` and `data.y`, and `trajens
# train points.csv --out runs/a` does all of this page without Python.
#
# ## Train
#
# A network of 16 hidden units; four paths of 8 of them. `budget` is the computing budget: the number of (current,
# proposed) pairs of losses, each on one example. `s` says how much the loss matters, `prior` how large weights are
# before anything is known. (s = N = 1000 would be the Bayesian posterior; left out, s is what the budget is enough
# for.)

# %%
model = tj.models.mlp((2, 16, 2), "tanh")
problem = model.problem(x, y)
run = tj.train(problem, tau=8, chains=4, budget=4e6, s=300.0, prior=2.0, seed=0, progress=False)
summary = run.summary()
for name in ("loss", "loss_stderr", "acceptance", "batch_size", "tilt_error", "tilt_error_stderr"):
    print(f"{name:18} {summary[name]:.4g}")

# %% [markdown]
# `tilt_error` is the error that decisions on minibatches leave in s, as the run has measured it, with its own error:
# a hundredth is what it plans for. The losses of the four chains against what they have read, with burn-in in grey:

# %%
used, loss = run.records["data_used"], run.records["loss"]
fig, axes = plt.subplots(figsize=(6, 2.8))
axes.semilogy(used.T, loss.T)
axes.axvspan(0, used[run.records["epoch"] <= run.burn_in].max(), color="0.9")
axes.set(xlabel="pairs of losses that decisions have read", ylabel="loss per model")
fig.tight_layout()

# %% [markdown]
# ## How good, and how sure?
#
# On points it has not seen. The vote is that of all 32 models; what they disagree on is the mutual information, in
# nats.

# %%
ensemble = tj.Ensemble.from_run(run, model, chain="all")
for name, value in ensemble.evaluate(test_x, test_y).items():
    if isinstance(value, float):
        print(f"{name:28} {value:.4f}")

# %% [markdown]
# Where it is unsure: the mean probability of one class, and what the models disagree on. Models of one path have one
# history and much in common; those of different chains have not, which is why there are four.

# %%
side = np.linspace(-2, 3, 80, dtype=np.float32)
grid = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)
members = ensemble.member_proba(grid)
mean = members.mean(0)


def entropy(p):
    return -(p * np.log(np.maximum(p, 1e-12))).sum(-1)


shown = {
    "mean probability of class 1": mean[:, 1],
    "what the models disagree on": entropy(mean) - entropy(members).mean(0),
}
fig, both = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
for axes, (title, values) in zip(both, shown.items(), strict=True):
    drawn = axes.pcolormesh(side, side, values.reshape(80, 80), shading="nearest")
    axes.scatter(*test_x[:200].T, c=test_y[:200], cmap="coolwarm", s=5)
    axes.set(title=title, xlim=(-2, 3), ylim=(-2, 3))
    fig.colorbar(drawn, ax=axes)
fig.tight_layout()

# %% [markdown]
# ## Go on
#
# A run goes on where it stopped, bit for bit as if it had been asked for more at once; one with `out=` does so in
# another process, after any kill. [Choosing settings](../howto/choosing.md) says what to change, [How sure, and rightly
# so?](../howto/uncertainty.md) what the numbers mean, and the [tutorial](../start/tutorial.md) has networks of Flax
# and Equinox, and losses without a derivative.
