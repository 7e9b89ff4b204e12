"""Small runs of every kind, by the public interface only, and what is kept of their results.

A result is two things. *Counts* (epochs, accepted proposals, examples read, reasons of decisions) are whole numbers,
the same on every machine unless rounding tips a decision, and are compared exactly. *Numbers* (losses, s, audits, the
last path) are floats that may differ in their last digits between processors and ways of compiling, and are compared to
`RELATIVE`. The digest of all bits is for two versions of the library that run on one machine, see `make.py`.
"""

import hashlib
import tempfile
import warnings
from functools import cache, partial
from pathlib import Path

import jax
import numpy as np

import trajens as tj
from trajens.kernels import library

RELATIVE = 1e-4
"""By which numbers may differ; rounding in single precision, summed over a run, makes some 1e-6."""
SUMS = ("loss_deciding",)
"""Columns that are sums of floats over blocks, whose ends depend on the clock; left out of the digest of bits."""
LEVELS = ("avx512", "avx2", "sse2")
"""Levels of the native kernel."""

DATA = tj.datasets.perceptron(noise=0.3)
TARGET = tj.Target(DATA.problem(), tau=5, sigma=0.1, s=80.0)


def _sample(target=TARGET, epochs=320, **changes):
    settings = {"chains": 4, "burn_in": 120, "records": 6, "acceptance": tj.Penalty(16), "seed": 3}
    return tj.sample(target, epochs, **{**settings, **changes})


@cache
def _regression(size=300):
    """A table and its network."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(size, 3)).astype(np.float32)
    y = np.sin(x @ np.array([1.0, -0.5, 0.25])) + 0.1 * rng.normal(size=size)
    return tj.models.mlp([3, 8, 1]).problem(x, y.astype(np.float32), "squared")


def _simulated(theta, keys):
    """Half the squared distance of a model from a noisy point."""
    return jax.vmap(lambda key: 0.5 * ((theta - 0.3 - 0.5 * jax.random.normal(key, (2,))) ** 2).sum())(keys)


STREAM = tj.Stream(_simulated, 2, max_batch=40)


class _StopAfter:
    def __init__(self, blocks):
        self.left = blocks

    def __call__(self):
        self.left -= 1
        return self.left < 0


def _train(problem, budget=4e5, **changes):
    return tj.train(
        problem,
        tau=4,
        budget=budget,
        chains=2,
        seed=1,
        progress=False,
        records=20,
        acceptance=tj.Penalty(pool=True),
        **changes,
    )


def _resumed(run):
    """A run that is stopped after its first block, resumed and stopped, and resumed to its end."""
    with tempfile.TemporaryDirectory() as folder:
        for number, blocks in enumerate((0, 1, 10**9)):
            out = tj.RunDirectory(Path(folder) / "run", resume=number > 0, checkpoint_seconds=0.0)
            found = run(out=out, stop=_StopAfter(blocks))
        return found


def _native(level):
    levels = library("cpu").levels
    before = levels.in_use
    levels.use(level)
    try:
        digits = tj.datasets.mnist()
        problem = tj.models.cnn().problem(digits.train_x[:512], digits.train_y[:512])
        return _sample(tj.Target(problem, 4, 0.05, 60.0, 0.3), 60, burn_in=20, chains=2, records=3)
    finally:
        levels.use(before)


_MIXTURE = tj.Mixture([(1.0, tj.Segment(2)), (1.0, tj.CentreOfMass(0.05)), (2.0, tj.SingleSite(0.5))])

CASES = {
    "penalty": _sample,
    "penalty, random scan": lambda: _sample(scan="random"),
    "penalty, four proposals a phase": lambda: _sample(scan=tj.Checkerboard(4)),
    "penalty of one stage": lambda: _sample(acceptance=tj.Penalty(16, stages=1)),
    "penalty without a plan": lambda: _sample(acceptance=tj.Penalty(16, plan=False)),
    "penalty that is audited and pooled": lambda: _sample(epochs=4096, acceptance=tj.Penalty(16, pool=True), chains=8),
    "paper": lambda: _sample(acceptance=tj.paper_test(24), scan="random"),
    "minibatch Barker": lambda: _sample(acceptance=tj.MinibatchBarker(32)),
    "Metropolis": lambda: _sample(acceptance=tj.Metropolis()),
    "Barker, random scan": lambda: _sample(acceptance=tj.Barker(), scan="random"),
    "half of the parameters": lambda: _sample(move=tj.SingleSite(0.5)),
    "segments, Metropolis": lambda: _sample(move=tj.Segment(2), acceptance=tj.Metropolis()),
    "centre of mass, random scan": lambda: _sample(move=tj.CentreOfMass(0.05), scan="random"),
    "mixture, minibatch Barker": lambda: _sample(move=_MIXTURE, acceptance=tj.MinibatchBarker(32)),
    "tuned": lambda: _sample(tj.Target(_regression(), 4, 0.1, 40.0, 0.5), tune=True),
    "two chunks at once": lambda: _sample(ahead=2),
    "schedule": lambda: _sample(tj.Target(DATA.problem(), 5, 0.1, tj.schedule.exponential(20.0, 80.0, 120))),
    "an s and a seed for every chain": lambda: _sample(
        tj.Target(DATA.problem(), 5, 0.1, [10.0, 20.0, 40.0, 80.0]), seed=[1, 1, 2, 2]
    ),
    "weights by losses": lambda: _sample(epochs=2048, burn_in=1024, scores="losses"),
    "weights that are given": lambda: _sample(scores=np.linspace(1.0, 2.0, len(DATA.x))),
    "exchange": lambda: _sample(
        tj.Target(DATA.problem(), 5, 0.1, [10.0, 20.0, 40.0, 80.0]), epochs=1024, burn_in=512, exchange=8
    ),
    "until converged": lambda: _sample(epochs=400, until="converged", max_epochs=900),
    "stream": lambda: _sample(tj.Target(STREAM, 3, 0.2, 20.0)),
    "train from an evolution start": lambda: _train(_regression(2000)),
    "train with a search for s": lambda: _train(_regression().hold_out(0.2)),
    "train on all examples after a search for s": lambda: _train(_regression()),
    "train to an s": lambda: _train(_regression(), s=50.0, start="random"),
    "train on a stream": lambda: _train(STREAM, prior=1.0),
    "two devices": lambda: _sample(devices=jax.devices()[:2]),
    "stopped and resumed": lambda: _resumed(_sample),
    "training stopped and resumed": lambda: _resumed(
        lambda **how: _train(_regression().hold_out(0.2), start="random", **how)
    ),
    "paths that are kept": lambda: _sample(keep_paths=True, observe={"first": lambda path: path[0, 0]}),
}
"""Name -> function that makes the run."""
NATIVE = {level: f"native kernel, {level}" for level in LEVELS}
"""Level of the native kernel -> the case that runs at it."""
CASES |= {name: partial(_native, level) for level, name in NATIVE.items()}


def result_of(run):
    """Counts and numbers of a run at its records and at its end, and the digest of all bits."""
    counts, numbers, digest = {}, {}, hashlib.sha256()
    for name, values in run.records.items():
        (counts if values.dtype.kind in "iu" else numbers)[name] = values.tolist()
        if name not in SUMS:
            digest.update(name.encode() + np.ascontiguousarray(values).tobytes())
    numbers["path"] = np.asarray(run.paths, np.float64).reshape(len(run.paths), -1)[:, :8].tolist()
    digest.update(np.ascontiguousarray(run.paths).tobytes())
    if run.history is not None:
        digest.update(np.ascontiguousarray(run.history).tobytes())
    return {"sha256": digest.hexdigest(), "counts": counts, "numbers": numbers}


def is_runnable(name):
    """Whether this machine has the level of the native kernel that a case is about."""
    levels = library("cpu").levels
    return name not in NATIVE.values() or (levels is not None and name.split(", ")[1] in levels.names)


def result(name):
    """What a case comes to now."""
    with warnings.catch_warnings():
        # Runs as short as these have reasons to warn.
        warnings.simplefilter("ignore")
        return result_of(CASES[name]())


def differences(before, now):
    """Names of the columns of two results that differ: counts at all, numbers by more than `RELATIVE`."""
    found = [name for name in before["counts"] if before["counts"][name] != now["counts"].get(name)]
    for name, values in before["numbers"].items():
        is_there = np.shape(now["numbers"].get(name)) == np.shape(values)
        scale = RELATIVE * np.nanmax(np.abs(values), initial=0.0, where=np.isfinite(values)) if is_there else 0.0
        if not is_there or not np.allclose(now["numbers"][name], values, RELATIVE, scale, equal_nan=True):
            found.append(name)
    more = {*now["counts"], *now["numbers"]} - {*before["counts"], *before["numbers"]}
    return [*found, *sorted(more)]
