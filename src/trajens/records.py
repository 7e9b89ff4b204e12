"""Records: what a run writes down at regular epochs, and the plain numbers made from them."""

from __future__ import annotations

import warnings
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


def record(mark: int, row: Row, target: Target, used: Any = 0) -> Records:
    """A row recorded at the epoch `mark` as arrays (chains, 1); `used` are the evaluations before it."""
    tally, measured = row
    proposals = np.asarray(tally.proposals)
    chains = len(proposals)
    is_sound = np.arange(len(Reason)) < Reason.NOT_FINITE
    sound = tally.reasons[:, is_sound].sum(1)
    tilt = 1.0 if target.schedule is None else float(target.schedule(jnp.int32(mark)))
    columns = {
        "epoch": np.full(chains, mark),
        "s": target.s_of_chains(chains).astype(np.float64) * tilt,
        "loss": measured.loss,
        "loss_error": measured.loss_error,
        "loss_deciding": tally.loss_deciding / np.maximum(sound, 1),
        "acceptance": tally.accepted / proposals,
        "batch_size": tally.examples / proposals,
        "data_used": tally.evaluations + used,
        "max_skew": tally.max_skew,
        "weight_rms": measured.weight_rms,
        **{reason.label: tally.reasons[:, reason] for reason in Reason},
    }
    # In 64 bits a record reads back from text as the same number.
    wide = {"f": np.float64, "i": np.int64}
    return {name: np.asarray(v, wide[np.asarray(v).dtype.kind])[:, None] for name, v in columns.items()}


def joined(tables: list[Records]) -> Records:
    """Several tables, one after the other."""
    return {name: np.concatenate([table[name] for table in tables], axis=1) for name in tables[0]} if tables else {}


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


def warn_if_not_finite(tables: list[Records]) -> None:
    """A RuntimeWarning if a current model had a loss that is not finite."""
    current = int(sum(table[Reason.CURRENT_NOT_FINITE.label].sum() for table in tables))
    unmeasured = int(sum((~np.isfinite(table["loss"])).sum() for table in tables))
    if current or unmeasured:
        warnings.warn(
            f"the loss of a current model was not finite on some examples: {current} decisions moved away from such a "
            f"model and {unmeasured} recorded losses are not finite; make the loss finite on all data.",
            RuntimeWarning,
            stacklevel=5,
        )
