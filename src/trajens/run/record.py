"""From what was counted, measured and audited to a record: one row per chain at every mark."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trajens.acceptance import Reason
from trajens.columns import AUDITED, PROJECTIONS, STEPS
from trajens.records import Records
from trajens.run.state import RunState, Spent
from trajens.sampling.exchange import Replicas
from trajens.sampling.measure import Measurement


class AuditSlopes(NamedTuple):
    """What an audit finds along one direction: the slope of every chain (chains,), its standard error and weight."""

    value: np.ndarray
    error: np.ndarray
    weight: np.ndarray


class AuditTerms(NamedTuple):
    """An audit of every chain: along Delta, which is the error of s, and along fixed directions; what it took.

    `slopes` are in the order of `trajens.columns.AUDITED`; `evaluations` are those of each chain, as are `steps`.
    """

    slopes: tuple[AuditSlopes, ...]
    evaluations: int
    steps: np.ndarray

    @property
    def has_found(self) -> bool:
        """Whether a proposal had a weight."""
        return bool((self.slopes[0].weight > 0).any())


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
    nothing = AuditSlopes(np.full(chains, np.nan), np.full(chains, np.nan), np.zeros(chains))
    slopes = (nothing,) * len(AUDITED) if audit is None else audit.slopes
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
        **{name: v for names, one in zip(AUDITED, slopes, strict=True) for name, v in zip(names, one, strict=True)},
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
