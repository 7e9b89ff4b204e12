"""From what was counted and measured to records: one row per chain at every mark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from trajens.acceptance import Reason
from trajens.columns import NAMES as NAMES
from trajens.columns import PROJECTIONS, STEPS
from trajens.columns import REASONS as REASONS
from trajens.records import Records
from trajens.sampling.measure import Measurement
from trajens.sampling.tally import Tally, whole_steps


class Terms(NamedTuple):
    """An audit of every chain: its error of s, its standard error and weight, the evaluations of each, and steps."""

    tilt_error: np.ndarray
    tilt_stderr: np.ndarray
    tilt_weight: np.ndarray
    evaluations: int
    steps: np.ndarray


class Used(NamedTuple):
    """Examples times models evaluated so far, per chain: to decide, to measure, and to audit; and steps, likewise."""

    data: Any = 0
    measured: Any = 0
    audited: Any = 0
    steps: tuple[Any, Any, Any] = (0, 0, 0)


def total(tallies: list[Tally]) -> Tally:
    """Several tallies as one, in 64 bits."""

    def add(get: Callable[[Tally], Any]) -> Any:
        column = np.stack([np.asarray(get(tally)) for tally in tallies])
        return column.sum(0, dtype=np.float64 if column.dtype.kind == "f" else np.int64)

    return Tally(
        add(lambda t: t.proposals),
        add(lambda t: t.accepted),
        add(lambda t: t.examples),
        add(lambda t: t.evaluations),
        add(lambda t: t.loss_deciding),
        add(lambda t: t.reasons),
        add(lambda t: t.steps),
    )


def record(
    mark: int,
    tally: Tally,
    s: np.ndarray,
    sizes: np.ndarray,
    measured: Measurement,
    evaluations: int,
    audited: Terms | None,
    used: Used,
    is_capped: bool = False,
    counts_steps: bool = False,
) -> Records:
    """The record at the epoch `mark` as arrays (chains, 1).

    Parameters
    ----------
    mark : int
    tally : Tally
        What was counted since the record before.
    s, sizes : (chains,)
        The tilt, and the size of tuned moves.
    measured : Measurement
    evaluations : int
        Per chain, to measure it and to score examples.
    audited : Terms, optional
        The audit at this epoch, if there was one.
    used : Used
        Evaluations before the record.
    is_capped : bool
        Whether decisions may be cut off, as those on a stream may.
    counts_steps : bool
        Whether the loss counts its steps.
    """
    proposals = np.asarray(tally.proposals)
    chains = len(proposals)
    sound = proposals - tally.reasons[:, [Reason.NOT_FINITE, Reason.CURRENT_NOT_FINITE]].sum(1)
    columns = {
        "epoch": np.full(chains, mark),
        "s": s,
        "loss": measured.loss,
        "loss_error": measured.loss_error,
        "loss_deciding": tally.loss_deciding / np.maximum(sound, 1),
        "acceptance": tally.accepted / proposals,
        "batch_size": tally.examples / proposals,
        "data_used": tally.evaluations + used.data,
        "data_measured": np.full(chains, evaluations) + used.measured,
        "data_audited": np.full(chains, 0 if audited is None else audited.evaluations) + used.audited,
        "tilt_error": np.full(chains, np.nan) if audited is None else audited.tilt_error,
        "tilt_stderr": np.full(chains, np.nan) if audited is None else audited.tilt_stderr,
        "tilt_weight": np.zeros(chains) if audited is None else audited.tilt_weight,
        "weight_rms": measured.weight_rms,
        "move_size": sizes,
        **dict(zip(PROJECTIONS, np.asarray(measured.projections).T, strict=True)),
        **{reason.label: tally.reasons[:, reason] for reason in Reason if is_capped or reason != Reason.CAPPED},
        **(_steps(tally, measured, audited, used) if counts_steps else {}),
        **measured.observed,
    }
    # In 64 bits a record reads back from text as the same number.
    wide = {"f": np.float64, "i": np.int64, "u": np.int64, "b": np.int64}
    return {name: np.asarray(v, wide[np.asarray(v).dtype.kind])[:, None] for name, v in columns.items()}


def _steps(tally: Tally, measured: Measurement, audited: Terms | None, used: Used) -> Records:
    """Steps so far."""
    decided, seen = whole_steps(tally.steps), np.asarray(measured.steps, np.int64)
    looked = np.zeros_like(decided) if audited is None else audited.steps
    return {
        name: np.asarray(now + before)
        for name, now, before in zip(STEPS, (decided, seen, looked), used.steps, strict=True)
    }
