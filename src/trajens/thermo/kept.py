"""The paths that a run has kept, after burn-in, by chain."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trajens.errors import InputError, integer, require
from trajens.records import after_burn_in
from trajens.run.run import Run
from trajens.run.stored import StoredRun


class Kept(NamedTuple):
    """Tilts (chains,), paths (chains, draws, tau, dim), on the disk where the run is, and epochs (draws,)."""

    s: np.ndarray
    history: np.ndarray
    epochs: np.ndarray


def kept_paths(run: Run | StoredRun, burn_in: int | None = None) -> Kept:
    """What a run has kept; refused where that is nothing, or s changed."""
    history, records = run.history, run.records
    if history is None or not records:
        raise InputError(
            "run must have kept its paths at every record, got none; sample with keep_paths=True, or train with "
            "--keep-paths."
        )
    begin = run.burn_in if burn_in is None else integer("burn_in", burn_in, 0, "0 leaves out nothing")
    is_after = after_burn_in(records, begin)
    require(
        bool(is_after.any()),
        f"a record after burn-in ({begin}) is needed, got {len(is_after)} before it; extend the run.",
    )
    # These are the last records, so that a slice will do: of a run on disk they are read as they are needed.
    first = int(np.argmax(is_after))
    s = records["s"][:, first:]
    require(
        bool((s == s[:, :1]).all()),
        f"s must not change after burn-in, got {s.min():g} to {s.max():g}; give a burn_in at which it has settled.",
    )
    return Kept(s[:, 0].astype(np.float64), history[:, first:], records["epoch"][0, first:])
