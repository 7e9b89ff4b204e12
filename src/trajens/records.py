"""Records: what a run writes down at regular epochs, and the plain numbers made from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from trajens.acceptance import Reason
from trajens.measure import Measurement
from trajens.tally import Tally
from trajens.target import Target

Records = dict[str, np.ndarray]


class Row(NamedTuple):
    """One record: what was counted since the one before, and what was measured at its end."""

    tally: Tally
    measured: Measurement


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
        np.max(np.stack([np.asarray(t.max_skew) for t in tallies]), axis=0),  # type: ignore[arg-type]
    )


def tabulate(marks: np.ndarray, rows: list[Row], target: Target) -> Records:
    """Rows recorded at the epochs `marks` as arrays (chains, records)."""

    def column(get: Callable[[Row], Any]) -> np.ndarray:
        return np.stack([np.asarray(get(row)) for row in rows], axis=1)

    proposals = column(lambda r: r.tally.proposals)
    chains = proposals.shape[0]
    is_sound = np.arange(len(Reason)) < Reason.NOT_FINITE
    sound = column(lambda r: r.tally.reasons[:, is_sound].sum(1))
    tilt = np.ones(len(marks))
    if target.schedule is not None:
        tilt = np.array([float(target.schedule(jnp.int32(mark))) for mark in marks])
    reasons = column(lambda r: r.tally.reasons)
    return {
        "epoch": np.tile(marks, (chains, 1)),
        "s": target.s_of_chains(chains)[:, None] * tilt,
        "loss": column(lambda r: r.measured.loss),
        "loss_error": column(lambda r: r.measured.loss_error),
        "loss_deciding": column(lambda r: r.tally.loss_deciding) / np.maximum(sound, 1),
        "acceptance": column(lambda r: r.tally.accepted) / proposals,
        "batch_size": column(lambda r: r.tally.examples) / proposals,
        "data_used": np.cumsum(column(lambda r: r.tally.evaluations), axis=1),
        "max_skew": column(lambda r: r.tally.max_skew),
        "weight_rms": column(lambda r: r.measured.weight_rms),
        **{reason.label: reasons[..., reason] for reason in Reason},
    }


def continued(old: Records, new: Records) -> Records:
    """Records of a run and of its continuation in one table."""
    if not old:
        return new
    new = {**new, "data_used": new["data_used"] + old["data_used"][:, -1:]}
    return {name: np.concatenate([old[name], values], axis=1) for name, values in new.items()}


def summarise(records: Records, burn_in: int) -> dict[str, Any]:
    """Averages over the records that lie after `burn_in`; each counts as much as it has epochs."""
    epoch = records["epoch"]
    start = np.concatenate([np.zeros_like(epoch[:, :1]), epoch[:, :-1]], axis=1)
    is_after = (start >= burn_in)[0]
    proposals = (epoch - start)[:, is_after]

    def mean(name: str) -> float:
        return float((records[name][:, is_after] * proposals).sum() / proposals.sum())

    losses = records["loss"][:, is_after].mean(1)
    used = np.diff(records["data_used"], axis=1, prepend=0)[:, is_after]
    return {
        "loss": float(losses.mean()),
        "loss_stderr": float(losses.std(ddof=1) / np.sqrt(losses.size)) if losses.size > 1 else float("nan"),
        "loss_deciding": mean("loss_deciding"),
        "acceptance": mean("acceptance"),
        "batch_size": mean("batch_size"),
        "data_used": int(used.sum()),
        "max_skew": float(records["max_skew"][:, is_after].max()),
        "weight_rms": float(records["weight_rms"][:, -1].mean()),
        "reasons": {reason.label: int(records[reason.label][:, is_after].sum()) for reason in Reason},
        "chains": int(losses.size),
    }
