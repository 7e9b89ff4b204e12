"""Forty problems whose law is known: the error of s, the shift of means, and what each run said about itself.

    python benchmarks/tolerance.py --jobs 16 --out paper/results/tolerance/tolerance.json
    python benchmarks/tolerance.py --only "absolute, t2, train"
    python benchmarks/tolerance.py --table paper/results/tolerance/tolerance.json

Every problem takes a minute or so of one core; with `--jobs` each process keeps to a core of its own. What a run has
sampled is compared with linear algebra (squared error, streams), with transfer matrices on a grid (one or two
parameters, any loss) or with a long run on all data (tables). The error of s is that of the mean loss over the
derivative of the exact one with respect to ln s; the shift of means is that of the mean model along the parameter where
it is furthest from 0 in units of its error, in standard deviations of one model. Errors are those over independent
chains, the loss that of the paths that were kept, on all data: nothing is taken from what the run has measured itself.

A run is outside its tolerance where one of the two is beyond it by more than three of its errors. It has warned where a
finding of its verdict asks for attention. Problems were written down before any of them was run.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

import trajens as tj
from tolerance_laws import Known, Law, Moments, linear, over_chains, perceptron, stream, table
from trajens.run.advice import ATTENTION, UNKNOWN, RunFacts, findings
from trajens.run.run import Run

# A GPU is not worth its compilations here, and would be shared by all processes.
jax.config.update("jax_platforms", "cpu")

TOLERANCE, ERRORS = 0.01, 3.0
"""Of s, and of means in standard deviations, and standard errors beyond it."""
RECORDS, BURN_IN = 120, 0.25
SMALL, PATH, LONG = Law(4, 0.2, None), Law(8, 0.15, None), Law(12, 0.15, None)
PRIOR = Law(4, 0.3, 1.0)
"""Of losses that do not keep models together."""
LADDER = (10.0, 20.0, 40.0, 80.0)


@dataclass(frozen=True)
class Case:
    """A problem, how it is sampled, and how long.

    Attributes
    ----------
    known : Known
    law : Law
    s : tuple of float
        Several for a ladder.
    length : float
        Epochs of `sample`, or pairs of losses per chain of `train`.
    is_trained : bool
    chains : int
        Of every s.
    settings : dict
        Of the run.
    """

    known: Known
    law: Law
    s: tuple[float, ...]
    length: float
    is_trained: bool = False
    chains: int = 256
    settings: dict[str, Any] = field(default_factory=dict)


WEIGHTED = {"example_weights": "losses"}
# Name: how the data are made, the path law, s, length, whether it is trained, chains, settings.
CASES: dict[str, tuple[Any, ...]] = {
    "squared, normal, N = 100": ((perceptron, "normal", 100, 2), SMALL, 30.0, 16_000),
    "squared, normal, N = 256": ((perceptron, "normal", 256, 2), SMALL, 60.0, 16_000),
    "squared, normal, N = 1000": ((perceptron, "normal", 1000, 4), PATH, 60.0, 16_000),
    "squared, normal, N = 10 000": ((perceptron, "normal", 10_000, 2), SMALL, 100.0, 8_000),
    "squared, normal, N = 60 000": ((perceptron, "normal", 60_000, 4), SMALL, 100.0, 8_000),
    "squared, gamma, N = 100": ((perceptron, "gamma", 100, 2), SMALL, 15.0, 16_000),
    "squared, gamma, N = 400": ((perceptron, "gamma", 400, 2), SMALL, 30.0, 16_000),
    "squared, gamma, N = 2000": ((perceptron, "gamma", 2000, 2), SMALL, 80.0, 8_000),
    "squared, gamma, N = 20 000": ((perceptron, "gamma", 20_000, 3), SMALL, 100.0, 8_000),
    "squared, gamma labels, N = 1000": ((perceptron, "normal", 1000, 6, "gamma"), PATH, 60.0, 16_000),
    "squared, t4, N = 150": ((perceptron, "t4", 150, 2), SMALL, 30.0, 16_000),
    "squared, t3, N = 2000": ((perceptron, "t3", 2000, 2), SMALL, 60.0, 16_000),
    "squared, t3, N = 20 000": ((perceptron, "t3", 20_000, 3), SMALL, 100.0, 8_000),
    "squared, product, N = 800": ((perceptron, "product", 800, 3), LONG, 40.0, 16_000),
    "squared, product, N = 60 000": ((perceptron, "product", 60_000, 2), SMALL, 100.0, 8_000),
    "absolute, t2, N = 2000": ((linear, "absolute", "t2", 2000, 1), SMALL, 100.0, 8_000),
    "absolute, t2, N = 500, 2 parameters": ((linear, "absolute", "t2", 500, 2), SMALL, 60.0, 16_000),
    "logistic, normal, N = 1000": ((linear, "logistic", "normal", 1000, 1), PRIOR, 100.0, 8_000),
    "logistic, gamma, N = 5000, 2 parameters": ((linear, "logistic", "gamma", 5000, 2), PRIOR, 100.0, 8_000),
    "0-1, normal, N = 300": ((linear, "0-1", "normal", 300, 1), PRIOR, 40.0, 16_000),
    "0-1, t4, N = 5000, 2 parameters": ((linear, "0-1", "t4", 5000, 2), PRIOR, 100.0, 8_000),
    "squared, gamma, N = 600, weights": ((perceptron, "gamma", 600, 2), SMALL, 30.0, 16_000, False, 256, WEIGHTED),
    "squared, t4, N = 3000, weights": ((perceptron, "t4", 3000, 2), SMALL, 80.0, 8_000, False, 256, WEIGHTED),
    "absolute, t2, N = 2000, weights": ((linear, "absolute", "t2", 2000, 1), SMALL, 100.0, 8_000, False, 256, WEIGHTED),
    "stream, normal": ((stream, "normal"), SMALL, 60.0, 8_000),
    "stream, gamma": ((stream, "gamma"), SMALL, 40.0, 8_000),
    "stream, t5": ((stream, "t5"), SMALL, 40.0, 8_000),
    "table, logistic, N = 300": ((table, "logistic", 300), PRIOR, 60.0, 16_000),
    "table, Huber, N = 1500": ((table, "Huber", 1500), PRIOR, 60.0, 16_000),
    "exchange, squared, normal, N = 300": ((perceptron, "normal", 300, 2), SMALL, LADDER, 8_000, False, 96),
    "exchange, squared, gamma, N = 2000": ((perceptron, "gamma", 2000, 2), SMALL, LADDER, 8_000, False, 96),
    "exchange, 0-1, normal, N = 300": ((linear, "0-1", "normal", 300, 1), PRIOR, LADDER, 8_000, False, 96),
    "train, squared, normal, N = 300": ((perceptron, "normal", 300, 2), SMALL, 60.0, 1e6, True, 128),
    "train, squared, normal, N = 2000": ((perceptron, "normal", 2000, 4), SMALL, 100.0, 1e5, True),
    "train, squared, normal, N = 60 000": ((perceptron, "normal", 60_000, 2), SMALL, 100.0, 2e6, True, 128),
    "train, squared, gamma, N = 3000": ((perceptron, "gamma", 3000, 3), SMALL, 100.0, 4e5, True),
    "train, squared, t3, N = 10 000": ((perceptron, "t3", 10_000, 2), SMALL, 100.0, 1e6, True, 128),
    "train, absolute, t2, N = 2000": ((linear, "absolute", "t2", 2000, 2), SMALL, 300.0, 4e5, True),
    "train, logistic, t4, N = 4000": ((linear, "logistic", "t4", 4000, 2), PRIOR, 100.0, 2.5e5, True),
    "train, no s, gamma, N = 2000": ((perceptron, "gamma", 2000, 2), SMALL, None, 1e6, True, 128),
}


def case_of(name: str, scale: float = 1.0) -> Case:
    """A line of `CASES`, its data made, with `scale` times the chains."""
    (make, *given), law, s, *how = CASES[name]
    case = Case(make(*given), law, s if isinstance(s, tuple) else (s,), *how)
    return replace(case, chains=max(8, round(scale * case.chains)))


def run_of(case: Case) -> Run:
    """Its run: all that a user would leave out is left out."""
    problem, (tau, sigma, prior), chains = case.known.problem, case.law, case.chains
    if case.is_trained:
        return tj.train(
            problem,
            tau=tau,
            budget=chains * case.length,
            s=case.s[0],
            sigma=sigma,
            prior=prior,
            chains=chains,
            keep_paths=True,
            progress=False,
            **case.settings,
        )
    s = case.s[0] if len(case.s) == 1 else list(case.s)
    return tj.sample(
        tj.Target(problem, tau, sigma, s, prior),
        int(case.length),
        chains=chains * len(case.s),
        burn_in=int(BURN_IN * case.length),
        records=RECORDS,
        keep_paths=True,
        exchange=len(case.s) > 1,
        **case.settings,
    )


def errors(found: Moments, draws: np.ndarray, losses: np.ndarray) -> dict[str, float]:
    """Of s and of the means, each with its standard error, from paths (chains, draws, tau, dim) and their losses."""
    loss, loss_error = over_chains(losses.mean((1, 2)))
    mean, mean_error = over_chains(draws.mean((1, 2)))
    shifts = (mean - found.mean) / found.spread
    shift_errors = np.hypot(mean_error, found.mean_error) / found.spread
    worst = int(np.argmax(np.abs(shifts) / shift_errors))
    # A path law has d loss / d ln s < 0: a loss that is too high is an s that is too small.
    return {
        "s_error": float((loss - found.loss) / found.slope),
        "s_stderr": float(np.hypot(loss_error, found.loss_error) / abs(found.slope)),
        "shift": float(shifts[worst]),
        "shift_stderr": float(shift_errors[worst]),
    }


def outside(row: dict[str, Any]) -> bool:
    """Whether s or a mean is beyond the tolerance by more than it can be by chance."""
    pairs = (("s_error", "s_stderr"), ("shift", "shift_stderr"))
    return any(abs(row[value]) > TOLERANCE + ERRORS * row[error] for value, error in pairs)


def measured(name: str, scale: float) -> dict[str, Any]:
    """The row of one problem."""
    begin, worked, case = time.perf_counter(), time.process_time(), case_of(name, scale)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = run_of(case)
    found = findings(RunFacts.of(run))
    draws = np.asarray(run.draws, np.float64)
    losses = case.known.losses(draws.reshape(-1, draws.shape[-1])).reshape(draws.shape[:3])
    of_levels = []
    for s in np.unique(run.s):
        chains = np.flatnonzero(run.s == s)
        exact = case.known.moments(case.law, float(s))
        of_levels.append({"s": float(s), **errors(exact, draws[chains], losses[chains])})
    summary = run.summary()
    return {
        "name": name,
        # Of several s the one that is furthest off, in units of its error.
        **max(
            of_levels,
            key=lambda row: max(abs(row["s_error"] / row["s_stderr"]), abs(row["shift"] / row["shift_stderr"])),
        ),
        "levels": len(of_levels),
        "audited": summary["tilt_error"],
        "audited_stderr": summary["tilt_error_stderr"],
        "attention": [one.name for one in found if one.mark == ATTENTION],
        "unknown": [one.name for one in found if one.mark == UNKNOWN],
        "warnings": [str(one.message)[:300] for one in caught],
        "chains": len(draws),
        "pairs": float(run.records["data_used"][:, -1].mean()),
        "burn_in_share": run.burn_in / run.epochs,
        "batch_size": summary["batch_size"],
        "acceptance": summary["acceptance"],
        "seconds": time.perf_counter() - begin,
        "processor_seconds": time.process_time() - worked,
    }


def as_table(rows: list[dict[str, Any]]) -> str:
    """Markdown."""
    lines = [
        "| problem | s | error of s, % | shift of means, sd | audited, % | what the run said | |",
        "|---" * 7 + "|",
    ]
    for row in rows:
        said = ", ".join([*row["attention"], *(f"{name}: unknown" for name in row["unknown"])]) or "all well"
        verdict = "" if not outside(row) else "outside, warned" if row["attention"] else "**outside, not warned**"
        audited = (
            f"{100 * row['audited']:+.2f} +- {100 * row['audited_stderr']:.2f}" if np.isfinite(row["audited"]) else ""
        )
        lines.append(
            f"| {row['name']} | {row['s']:.4g} | {100 * row['s_error']:+.2f} +- {100 * row['s_stderr']:.2f} | "
            f"{row['shift']:+.4f} +- {row['shift_stderr']:.4f} | {audited} | {said.lower()} | {verdict} |"
        )
    beyond = [row for row in rows if outside(row)]
    silent = sum(not row["attention"] for row in beyond)
    lines += ["", f"{len(rows)} problems: {len(beyond)} outside their tolerance, {silent} of them without a warning."]
    return "\n".join(lines)


def _keep_to(cores: Any) -> None:
    """A core of its own for this process."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {cores.get()})


def _tried(name: str, scale: float) -> dict[str, Any]:
    """The row of a problem, or what it failed with."""
    try:
        return measured(name, scale)
    except Exception as error:  # One that fails must not take the others with it.
        return {"name": name, "failed": f"{type(error).__name__}: {error}"}


def all_rows(names: list[str], jobs: int, scale: float) -> Iterator[dict[str, Any]]:
    """Rows as they are found."""
    if jobs == 1:
        yield from (_tried(name, scale) for name in names)
        return
    context = multiprocessing.get_context("spawn")
    cores = context.Queue()
    available = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(jobs)
    for k in range(jobs):
        cores.put(available[k % len(available)])
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_keep_to, initargs=(cores,)) as pool:
        for done in as_completed([pool.submit(_tried, name, scale) for name in names]):
            yield done.result()


def main() -> None:
    """Run, write and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="times the chains")
    parser.add_argument("--only", nargs="*", default=None, help="parts of names")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, help="print the table of a file, and run nothing")
    given = parser.parse_args()
    if given.table is not None:
        print(as_table(json.loads(given.table.read_text())["rows"]))
        return
    names = [name for name in CASES if given.only is None or any(part in name for part in given.only)]
    rows: list[dict[str, Any]] = []
    for row in all_rows(names, given.jobs, given.scale):
        rows = sorted([*rows, row], key=lambda one: names.index(one["name"]))
        far = row.get("failed") or f"{100 * row['s_error']:+.2f} +- {100 * row['s_stderr']:.2f} %"
        print(f"{len(rows)}/{len(names)} {row['name']}: {far} ({row.get('processor_seconds', 0):.0f} s)", flush=True)
        if given.out is not None:
            content = {"version": tj.__version__, "rows": [one for one in rows if "failed" not in one]}
            given.out.parent.mkdir(parents=True, exist_ok=True)
            given.out.write_text(json.dumps(content, indent=1))
    print(as_table([row for row in rows if "failed" not in row]))


if __name__ == "__main__":
    main()
