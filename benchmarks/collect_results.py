"""Copy what is worth keeping of runs: options, thinned records, last checkpoint, evaluation of every chain.

    python benchmarks/collect_results.py runs/paper-32 --out paper/results/mnist --commit $(git rev-parse HEAD) \\
        --evaluate

`trajens evaluate` and `picture` work on a folder made here, and ``train --start`` goes on from it.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import trajens as tj
from trajens.app.experiment import Experiment
from trajens.ensemble import Ensemble, scores
from trajens.records import num_records
from trajens.storage import checkpoint
from trajens.storage.directory import CONFIG
from trajens.storage.tables import RecordFile

_LINES = 400
_MADE_WITH = ("trajens", "python", "jax", "numpy", "system", "devices", "loss_kernel")


def main() -> None:
    """Collect every run that is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--evaluate", action="store_true", help="on the test set, every chain")
    parser.add_argument(
        "--half", action="store_true", help="keep paths in half precision; such a run cannot be resumed"
    )
    given = parser.parse_args()
    for run in given.runs:
        collect(run, given.out / run.name, given.commit, given.evaluate, given.half)


def collect(run: Path, out: Path, commit: str, is_evaluated: bool, is_half: bool) -> None:
    """One run."""
    out.mkdir(parents=True, exist_ok=True)
    stored, experiment = tj.StoredRun(run), Experiment.load(run)
    # What it started from is not collected.
    (out / CONFIG).write_text(replace(experiment.config, start=None).to_toml())
    write_thinned(stored, out)
    about = {
        "commit": commit,
        "epochs": stored.epoch,
        "epochs_asked_for": stored.last_epoch,
        "chains": stored.chains,
        "seconds": round(stored.seconds, 1),
        "starts": len(stored.sessions),
        **{name: stored.sessions[-1][name] for name in _MADE_WITH},
    }
    (out / "about.json").write_text(json.dumps(about, indent=1) + "\n")
    if is_evaluated and experiment.test_data is not None:
        (out / "evaluation.json").write_text(json.dumps(evaluated(experiment, stored)) + "\n")
    for old in checkpoint.checkpoints(out):
        old.unlink()
    arrays = stored.arrays
    if is_half:
        arrays = {**arrays, "state.path": arrays["state.path"].astype(np.float16)}
    checkpoint.save(out, stored.epoch, arrays)
    print(f"{out}: {about['epochs']:,} epochs", flush=True)


def write_thinned(stored: tj.StoredRun, out: Path) -> None:
    """Every so-manieth record, with all its chains, and always the last one."""
    records, file = stored.records, RecordFile(out)
    file.file.unlink(missing_ok=True)
    count = num_records(records)
    every = max(1, count * stored.chains // _LINES)
    for i in range((count - 1) % every, count, every):
        file.append({name: values[:, i : i + 1] for name, values in records.items()})


def evaluated(experiment: Experiment, stored: tj.StoredRun) -> dict[str, Any]:
    """Scores of every chain, and of all models of all chains with the same s as one ensemble."""
    assert experiment.test_data is not None
    x, y = experiment.test_data
    paths = stored.paths
    # All models as one ensemble: it is compiled once.
    everyone = Ensemble(experiment.model, paths.reshape(-1, paths.shape[-1])).member_proba(x)
    members = np.split(everyone, len(paths))
    s = experiment.target.s_of_chains(len(paths))
    is_annealed = experiment.target.schedule is not None
    groups = {"annealed" if is_annealed else f"{value:g}": np.flatnonzero(s == value) for value in np.unique(s)}
    together = {name: scores(np.concatenate([members[c] for c in here]), y) for name, here in groups.items()}
    return {"epoch": stored.epoch, "chains": [scores(proba, y) for proba in members], "all_chains_by_s": together}


if __name__ == "__main__":
    main()
