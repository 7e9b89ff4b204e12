"""Copy what is worth keeping of runs: options, thinned records, last checkpoint, evaluation of every chain.

    python benchmarks/collect_results.py runs/paper-32 --out results/mnist --commit $(git rev-parse HEAD) --evaluate

`trajens evaluate` and `picture` work on a folder made here, and ``train --start`` goes on from it.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from trajens.checkpoint import Arrays, checkpoints, load_newest, save
from trajens.ensemble import Ensemble, scores
from trajens.experiment import Experiment

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
    arrays = load_newest(run)
    if arrays is None:
        raise SystemExit(f"{run} has no checkpoint")
    for old in checkpoints(out):
        old.unlink()
    config = (run / "config.toml").read_text().splitlines(keepends=True)
    (out / "config.toml").write_text("".join(line for line in config if not line.startswith("start =")))
    experiment = Experiment.load(out)
    header, *lines = (run / "records.csv").read_text().splitlines(keepends=True)
    chains = experiment.chains
    # Every so-manieth record, with all its chains, and always the last one.
    records = [lines[i : i + chains] for i in range(0, len(lines) // chains * chains, chains)]
    every = max(1, len(records) * chains // _LINES)
    kept = records[::-1][::every][::-1]
    (out / "records.csv").write_text(header + "".join("".join(record) for record in kept))
    sessions = [json.loads(line) for line in (run / "sessions.jsonl").read_text().splitlines()]
    about = {
        "commit": commit,
        "epochs": int(arrays["epoch"]),
        "epochs_asked_for": int(arrays["marks"][-1]),
        "chains": chains,
        "seconds": round(float(arrays["seconds"]), 1),
        "starts": len(sessions),
        **{name: sessions[-1][name] for name in _MADE_WITH},
    }
    (out / "about.json").write_text(json.dumps(about, indent=1) + "\n")
    if is_evaluated and experiment.test_data is not None:
        (out / "evaluation.json").write_text(json.dumps(evaluated(experiment, arrays)) + "\n")
    if is_half:
        arrays["state.path"] = arrays["state.path"].astype(np.float16)
        save(out, int(arrays["epoch"]), arrays)
    else:
        shutil.copy(checkpoints(run)[0], out)
    print(f"{out}: {about['epochs']:,} epochs", flush=True)


def evaluated(experiment: Experiment, arrays: Arrays) -> dict[str, Any]:
    """Scores of every chain, and of all models of all chains with the same s as one ensemble."""
    assert experiment.test_data is not None
    x, y = experiment.test_data
    paths = arrays["state.path"]
    members = [Ensemble(experiment.model, path).member_proba(x) for path in paths]
    s = experiment.target.s_of_chains(len(paths))
    is_annealed = experiment.target.schedule is not None
    groups = {"annealed" if is_annealed else f"{value:g}": np.flatnonzero(s == value) for value in np.unique(s)}
    together = {name: scores(np.concatenate([members[c] for c in here]), y) for name, here in groups.items()}
    chains = [scores(proba, y) for proba in members]
    return {"epoch": int(arrays["epoch"]), "chains": chains, "all_chains_by_s": together}


if __name__ == "__main__":
    main()
