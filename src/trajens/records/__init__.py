"""Records: what a run writes down at regular epochs, as arrays (chains, records) by name, and numbers made of them.

`COLUMNS` says what there is; see `trajens.records.columns`.
"""

from trajens.records.columns import (
    BY_NAME,
    COLUMNS,
    DRAWS,
    EXCHANGE,
    NAMES,
    PROJECTIONS,
    REASONS,
    STEPS,
    Average,
    Column,
    When,
)
from trajens.records.summary import (
    Records,
    Started,
    after_burn_in,
    chains_by_s,
    has_summary,
    is_within,
    joined,
    learning_curve,
    mean_and_error,
    num_records,
    started,
    starts,
    summarise,
    warn_if_not_finite,
    warn_of_tilt,
)

__all__ = [
    "BY_NAME",
    "COLUMNS",
    "DRAWS",
    "EXCHANGE",
    "NAMES",
    "PROJECTIONS",
    "REASONS",
    "STEPS",
    "Average",
    "Column",
    "Records",
    "Started",
    "When",
    "after_burn_in",
    "chains_by_s",
    "has_summary",
    "is_within",
    "joined",
    "learning_curve",
    "mean_and_error",
    "num_records",
    "started",
    "starts",
    "summarise",
    "warn_if_not_finite",
    "warn_of_tilt",
]
