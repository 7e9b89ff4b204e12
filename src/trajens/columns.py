"""The columns of records: their order, what they are called, what they are, and how they are averaged.

Whatever is shown of a record follows from `COLUMNS`: the order of ``records.csv``, the summary of a run, the groups of
ArviZ, the table of the command line, the panels of a report, the columns of a sweep, and the table in the
documentation. A new column is one `Column` here, and its value where a record is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Average(Enum):
    """How the records of a column become one number of a summary."""

    NONE = "none"
    RECORDS = "mean of the records after burn-in"
    EPOCHS = "mean over the epochs after burn-in"
    KNOWN = "mean of the records after burn-in that are not NaN"
    AUDITS = "mean of the audits after burn-in, by `tilt_weight`"
    SHIFTS = "mean of the forces of audits after burn-in, by weight, in standard deviations of the projection"
    GROWTH = "sum over chains, after burn-in"
    COUNT = "sum after burn-in, in `reasons`"
    LAST = "mean over chains of the last record"
    TOTAL = "sum over chains of the last record, burn-in included"


class When(Enum):
    """Which runs have a column, or have something in it."""

    ALWAYS = "every run"
    AUDITS = "every run; filled in where decisions are audited"
    TUNED = "every run; NaN unless moves are tuned"
    HELD_OUT = "runs with examples that are held out"
    STREAM = "runs on a stream"
    STEPS = "losses that count steps"
    EXCHANGE = "runs that exchange paths"
    EXCHANGE_STEPS = "runs that exchange paths, of losses that count steps"


@dataclass(frozen=True)
class Column:
    """One column of records.

    Attributes
    ----------
    name : str
        In records, summaries and files.
    title : str
        In tables, and above panels and charts.
    what : str
        One sentence.
    unit : str
        Beside an axis.
    average : Average
        How it is averaged in a summary.
    when : When
        Which runs have it.
    spec : str
        Format of the average in tables; an empty one leaves it out of them.
    has_error : bool
        Whether the summary has a standard error of the average.
    is_share : bool
        Whether it is written in per cent on pages.
    is_draw : bool
        Whether it is a function of the path: chains are compared by it, and it is in the posterior of ArviZ.
    look_for : str
        What to look for in the panel of one run; an empty one makes no panel.
    compare : str
        What to look for where the curves of several runs are compared; an empty one makes no panel.
    sweep : str
        What to look for where the averages of a sweep are drawn; an empty one makes no chart.
    """

    name: str
    title: str
    what: str
    unit: str = ""
    average: Average = Average.NONE
    when: When = When.ALWAYS
    spec: str = ""
    has_error: bool = False
    is_share: bool = False
    is_draw: bool = False
    look_for: str = ""
    compare: str = ""
    sweep: str = ""

    @property
    def heading(self) -> str:
        """The title with a capital."""
        return self.title[:1].upper() + self.title[1:]

    @property
    def anchor(self) -> str:
        """Name of its panel in the address of a page."""
        return self.name.replace("_", "-")

    @property
    def keys(self) -> tuple[str, ...]:
        """What it is called in a summary: the average, and its standard error."""
        return (self.name, f"{self.name}_stderr") if self.has_error else (self.name,)

    @property
    def is_in_every_run(self) -> bool:
        """Whether records of every run have it, but for those of earlier versions."""
        return self.when in (When.ALWAYS, When.AUDITS, When.TUNED)


PROJECTIONS = ("projection_1", "projection_2", "projection_3")
"""Columns of the mean model of a path along fixed directions; runs of before have none."""

AUDITED = (
    ("tilt_error", "tilt_stderr", "tilt_weight"),
    *((f"force_{k}", f"force_stderr_{k}", f"force_weight_{k}") for k in range(1, len(PROJECTIONS) + 1)),
)
"""Columns of what audits find, its standard error and its weight: along Delta, and along the fixed directions."""

_DATA, _STEPS, _DECISIONS = "examples times models", "steps", "decisions"

COLUMNS = (
    Column("epoch", "epoch", "Proposals per chain so far.", "epoch (proposals per chain)"),
    Column(
        "s",
        "tilt s",
        "How strongly low losses are preferred.",
        "s (per unit of mean loss)",
        look_for="Look for a constant after burn-in, where averages are made.",
        compare="Losses of runs that end at different s are of different distributions.",
    ),
    Column(
        "loss",
        "loss per model",
        "Measured on fresh examples, or on all.",
        "loss",
        Average.RECORDS,
        spec=".6g",
        has_error=True,
        is_draw=True,
        look_for="Look for a level that it keeps after burn-in, alike in all chains; bands are standard errors.",
        compare="Mean over chains. Compare where curves end, not how soon they fall.",
        sweep="Mean after burn-in. Losses at different s, or of different data, are of different distributions.",
    ),
    Column("loss_error", "error of measuring the loss", "Standard error of `loss`, 0 where it is of all data.", "loss"),
    Column(
        "loss_held_out",
        "loss of held-out examples",
        "Loss per model on examples that are not trained on.",
        "loss",
        Average.RECORDS,
        When.HELD_OUT,
        spec=".6g",
        look_for="Look for a level near that of the training loss: one far above it has learned examples by heart.",
        compare="Compare where curves end; what counts for new data is this loss.",
        sweep="Mean after burn-in, on the examples of the same file that were held out.",
    ),
    Column(
        "loss_deciding",
        "loss of the decisions",
        "The paper's estimate, on the batches that took the decisions since the record before.",
        "loss",
        Average.EPOCHS,
    ),
    Column(
        "acceptance",
        "acceptance rate",
        "Share of proposals accepted since the record before.",
        "accepted",
        Average.EPOCHS,
        spec=".3f",
        has_error=True,
        is_share=True,
        look_for="Look for something between a tenth and nine tenths.",
        compare="Mean over chains; between a tenth and nine tenths is sensible.",
        sweep="Between a tenth and nine tenths is sensible.",
    ),
    Column(
        "batch_size",
        "mean batch",
        "Mean number of examples that a decision took.",
        "examples per decision",
        Average.EPOCHS,
        spec=".1f",
        has_error=True,
        look_for="Look for far fewer than all: else minibatches no longer pay at this s.",
        compare="What a decision costs. Smaller is cheaper.",
        sweep="What a decision costs. Smaller is cheaper.",
    ),
    Column("data_used", "data used", "Evaluated in decisions so far.", _DATA, Average.GROWTH, spec=","),
    Column(
        "data_measured",
        "data to measure the loss",
        "Evaluated so far to measure the loss, and to score examples.",
        _DATA,
        Average.GROWTH,
        spec=",",
    ),
    Column(
        "data_audited", "data to audit", "Evaluated in audits so far.", _DATA, Average.GROWTH, When.AUDITS, spec=","
    ),
    Column(
        "tilt_error",
        "error of s, audited",
        "Small batches make the run sample s (1 + error), from this record on: in burn-in s is changed just before.",
        "error of s",
        Average.AUDITS,
        When.AUDITS,
        spec="+.2%",
        has_error=True,
        is_share=True,
        look_for="Look for points that scatter about 0.",
        sweep="A run samples s (1 + error), by audits of its decisions. Look for numbers close to 0.",
    ),
    Column("tilt_stderr", "error of the audit", "Standard error of `tilt_error`.", "error of s", when=When.AUDITS),
    Column("tilt_weight", "weight of the audit", "By which `tilt_error` is averaged.", when=When.AUDITS),
    *(
        column
        for k, (force, error, weight) in enumerate(AUDITED[1:], 1)
        for column in (
            Column(
                force,
                f"force along direction {k}, audited",
                f"Small batches move the mean of projection {k} by its variance times this, from this record on.",
                "1 / unit of the projection",
                when=When.AUDITS,
            ),
            Column(error, f"error of that force, {k}", f"Standard error of `{force}`.", when=When.AUDITS),
            Column(weight, f"weight of that force, {k}", f"By which `{force}` is averaged.", when=When.AUDITS),
        )
    ),
    Column(
        "weight_rms",
        "weight RMS",
        "Of all parameters of the path, in the units of the model.",
        "root mean square",
        Average.LAST,
        spec=".3g",
        look_for="Look for no drift after burn-in: weights that grow and grow have no equilibrium.",
        compare="A curve that grows and grows has no equilibrium.",
    ),
    Column(
        "move_size",
        "size of moves, tuned",
        "Share of many parameters, or refresh of few, that a move redraws.",
        "share",
        Average.EPOCHS,
        When.TUNED,
        spec=".3g",
    ),
    Column(
        "renewals",
        "renewals of the path",
        "How often every parameter of every model was redrawn since the record before, about.",
    ),
    *(
        Column(name, f"projection {k}", f"The mean model of the path along fixed direction {k}.", is_draw=True)
        for k, name in enumerate(PROJECTIONS, 1)
    ),
    Column("tested", "tested", "Decisions by the test, on a part of the data.", _DECISIONS, Average.COUNT),
    Column(
        "cut_off", "cut off", "Decisions by the sign of a difference far beyond its noise.", _DECISIONS, Average.COUNT
    ),
    Column("all_data", "all data", "Decisions on all data.", _DECISIONS, Average.COUNT),
    Column(
        "not_finite", "not finite", "Proposals refused, with a loss that was not finite.", _DECISIONS, Average.COUNT
    ),
    Column(
        "current_not_finite",
        "current not finite",
        "Decisions to leave a model whose loss was not finite.",
        _DECISIONS,
        Average.COUNT,
    ),
    Column(
        "capped",
        "capped",
        "Decisions that asked for more examples than max_batch.",
        _DECISIONS,
        Average.COUNT,
        When.STREAM,
    ),
    Column(
        "steps_used",
        "steps of the environment, decisions",
        "Of both models in all decisions so far.",
        _STEPS,
        Average.TOTAL,
        When.STEPS,
        spec=",",
    ),
    Column(
        "steps_measured",
        "steps to measure the loss",
        "Of all models of the path so far.",
        _STEPS,
        Average.TOTAL,
        When.STEPS,
        spec=",",
    ),
    Column("steps_audited", "steps to audit", "In audits so far.", _STEPS, Average.TOTAL, When.STEPS, spec=","),
    Column(
        "swap_acceptance",
        "exchanges with the next s, accepted",
        "Share of those since the record before; NaN where there was none.",
        "accepted",
        Average.KNOWN,
        When.EXCHANGE,
        spec=".3f",
    ),
    Column(
        "round_trips",
        "round trips of paths that began here",
        "From the lowest s to the highest and back, so far.",
        "round trips",
        Average.TOTAL,
        When.EXCHANGE,
        spec=",",
    ),
    Column("replica", "replica", "The chain in which the path began.", when=When.EXCHANGE),
    Column(
        "data_exchanged",
        "data to exchange",
        "Evaluated so far for exchanges with the next s.",
        _DATA,
        Average.TOTAL,
        When.EXCHANGE,
        spec=",",
    ),
    Column(
        "steps_exchanged",
        "steps to exchange",
        "In exchanges with the next s so far.",
        _STEPS,
        Average.TOTAL,
        When.EXCHANGE_STEPS,
        spec=",",
    ),
)
"""All columns in the order of records; those of one's own stand before those of exchange."""

MEAN_SHIFT = Column(
    "mean_shift",
    "shift of means, audited",
    "Small batches move the mean model by so many posterior standard deviations, in the direction where it is worst.",
    "posterior standard deviations",
    Average.SHIFTS,
    When.AUDITS,
    spec="+.4f",
    has_error=True,
)

SUMMARISED = tuple(
    one for column in COLUMNS for one in ((column, MEAN_SHIFT) if column.average is Average.AUDITS else (column,))
)
"""Columns, and what a summary makes of the forces beside the error of s."""

BY_NAME = {column.name: column for column in SUMMARISED}
"""These by their name."""

NAMES = tuple(column.name for column in COLUMNS)
"""Names of all columns, in the order of records."""

REASONS = tuple(column.name for column in COLUMNS if column.average is Average.COUNT)
"""Columns that count decisions by their reason, in the order of `trajens.acceptance.Reason`."""

STEPS = tuple(column.name for column in COLUMNS if column.when is When.STEPS)
"""Columns of losses that count their steps: of both models in all decisions, to measure the loss, and to audit."""

HELD_OUT = tuple(column.name for column in COLUMNS if column.when is When.HELD_OUT)
"""Columns of runs with examples that are held out."""

EXCHANGE = tuple(column.name for column in COLUMNS if column.when in (When.EXCHANGE, When.EXCHANGE_STEPS))
"""Columns of runs that exchange paths, in the order of `trajens.sampling.exchange.Replicas.columns`."""

DRAWS = tuple(column.name for column in COLUMNS if column.is_draw)
"""Columns that chains are compared by: the loss, and projections of the models."""
