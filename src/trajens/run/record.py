"""From what was counted, measured and audited to a record: one row per chain at every mark."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from trajens.acceptance import Reason
from trajens.columns import PROJECTIONS, STEPS
from trajens.records import Records
from trajens.run.state import RunState, Spent
from trajens.sampling.exchange import Replicas
from trajens.sampling.measure import Measurement


class AuditTerms(NamedTuple):
    """An audit of every chain: its error of s, its standard error and weight, the evaluations of each, and steps."""

    tilt_error: np.ndarray
    tilt_stderr: np.ndarray
    tilt_weight: np.ndarray
    evaluations: int
    steps: np.ndarray


class Observation(NamedTuple):
    """What was found at a mark.

    Attributes
    ----------
    s, sizes, renewals : (chains,)
        The tilt, the size of tuned moves, and how often the path was renewed since the record before.
    measured : Measurement
    held_out : (chains,) or None
        The loss of examples that are held out.
    spent : Spent
        Evaluations up to this record.
    audit : AuditTerms or None
        The audit at this epoch, if there was one.
    replicas : Replicas or None
        Of a run that exchanges paths.
    is_capped, counts_steps : bool
        Whether decisions may be cut off, as those on a stream may, and whether the loss counts its steps.
    """

    s: np.ndarray
    sizes: np.ndarray
    renewals: np.ndarray
    measured: Measurement
    held_out: np.ndarray | None
    spent: Spent
    audit: AuditTerms | None
    replicas: Replicas | None
    is_capped: bool
    counts_steps: bool


def make_record(run: RunState, found: Observation) -> Records:
    """The record at the epoch of `run`, as arrays (chains, 1)."""
    tally, measured, audit = run.tally, found.measured, found.audit
    proposals = np.asarray(tally.proposals)
    chains = len(proposals)
    sound = proposals - tally.reasons[:, [Reason.NOT_FINITE, Reason.CURRENT_NOT_FINITE]].sum(1)
    nothing: Any = np.full(chains, np.nan)
    columns = {
        "epoch": np.full(chains, run.epoch),
        "s": found.s,
        "loss": measured.loss,
        "loss_error": measured.loss_error,
        **({} if found.held_out is None else {"loss_held_out": found.held_out}),
        "loss_deciding": tally.loss_deciding / np.maximum(sound, 1),
        "acceptance": tally.accepted / proposals,
        "batch_size": tally.examples / proposals,
        "data_used": found.spent.decided,
        "data_measured": found.spent.measured,
        "data_audited": found.spent.audited,
        "tilt_error": nothing if audit is None else audit.tilt_error,
        "tilt_stderr": nothing if audit is None else audit.tilt_stderr,
        "tilt_weight": np.zeros(chains) if audit is None else audit.tilt_weight,
        "weight_rms": measured.weight_rms,
        "move_size": found.sizes,
        "renewals": found.renewals,
        **dict(zip(PROJECTIONS, np.asarray(measured.projections).T, strict=True)),
        **{reason.label: tally.reasons[:, reason] for reason in Reason if found.is_capped or reason != Reason.CAPPED},
        **(dict(zip(STEPS, found.spent.steps, strict=True)) if found.counts_steps else {}),
        **measured.observed,
        **({} if found.replicas is None else found.replicas.columns),
    }
    # In 64 bits a record reads back from text as the same number.
    wide = {"f": np.float64, "i": np.int64, "u": np.int64, "b": np.int64}
    return {name: np.asarray(v, wide[np.asarray(v).dtype.kind])[:, None] for name, v in columns.items()}
