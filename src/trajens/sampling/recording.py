"""Names of the columns of records, in their order."""

from __future__ import annotations

from trajens.acceptance import Reason
from trajens.records import PROJECTIONS, STEPS
from trajens.sampling.replicas import EXCHANGE

REASONS = tuple(reason.label for reason in Reason)
"""Columns that count decisions by their reason."""

NAMES = (
    "epoch",
    "s",
    "loss",
    "loss_error",
    "loss_deciding",
    "acceptance",
    "batch_size",
    "data_used",
    "data_measured",
    "data_audited",
    "tilt_error",
    "tilt_stderr",
    "tilt_weight",
    "weight_rms",
    "move_size",
    *PROJECTIONS,
    *REASONS,
    *STEPS,
    *EXCHANGE,
)
"""Columns of all records, in their order; those of one's own follow.

The last reason, steps and exchanges are there only where they can be other than 0.
"""
