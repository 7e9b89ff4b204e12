"""Words about a run: the verdict, which one sees first, what was run and with what, and its scores."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trajens.app.report import numerals
from trajens.app.report.chart import Shown
from trajens.app.report.html import Markup, table, tag
from trajens.app.report.run_view import Evaluation, Remembered
from trajens.columns import BY_NAME, COLUMNS
from trajens.run.advice import ATTENTION, OK, UNKNOWN, Finding, RunFacts
from trajens.run.identity import write_out
from trajens.run.stored import StoredRun

WORDS = {OK: "in order", ATTENTION: "attention", UNKNOWN: "not known"}
"""Of every mark, beside its sign: colours alone say nothing."""
SIGNS = {OK: "✓", ATTENTION: "!", UNKNOWN: "?"}
_ORDER = (ATTENTION, UNKNOWN, OK)


def headline(findings: Sequence[Finding]) -> str:
    """All of them in one sentence."""
    count = Counter(finding.mark for finding in findings)
    parts = [f"{count[OK]} of {len(findings)} checks are in order"]
    if count[ATTENTION]:
        parts.append(f"{count[ATTENTION]} need{'s' * (count[ATTENTION] == 1)} attention")
    if count[UNKNOWN]:
        parts.append(f"{count[UNKNOWN]} cannot be answered")
    return f"{', '.join(parts)}."


def verdicts(findings: Sequence[Finding]) -> Markup:
    """A list of all, those that need attention first."""
    ordered = sorted(findings, key=lambda finding: _ORDER.index(finding.mark))
    return tag("ul", *map(_item, ordered), class_="verdicts")


def mark(finding: Finding) -> Markup:
    """Sign and word of a finding."""
    return mark_word(finding.mark, WORDS[finding.mark])


def mark_word(kind: str, word: str) -> Markup:
    """A word with the sign of a mark."""
    sign = tag("span", SIGNS[kind], class_="sign", aria_hidden="true")
    return tag("span", sign, tag("span", word, class_="word"), class_=f"mark {kind}")


def sentence(finding: Finding) -> str:
    """What was found, in the signs of a page."""
    return finding.sentence.replace("+-", "±")


def _item(finding: Finding) -> Markup:
    said = [tag("p", sentence(finding))]
    if finding.following:
        said.append(tag("p", "Next: ", finding.following, ".", class_="small"))
    return tag("li", tag("h3", finding.name), mark(finding), *said, class_=f"verdict {finding.mark}")


_UNITS = {"CrossEntropy": "nats per example", "Squared": "half the squared error"}
_SHOWN = 2000
"""Characters of an option at most; how a wide table was read may have millions."""


def loss_unit(stored: StoredRun | Remembered) -> str:
    """The unit of the loss; that of a loss of one's own is not known."""
    return _UNITS.get(_name(stored.identity.get("loss")) or "", "units of the loss")


def settings(stored: StoredRun | Remembered, facts: RunFacts) -> dict[str, str]:
    """What a run was made with, by name."""
    known, config = stored.identity, stored.config or {}
    last = {name: values[:, -1] for name, values in facts.records.items()}
    problem = config.get("problem")
    sessions = stored.sessions
    machine = sessions[-1] if sessions else {}
    found: dict[str, str | None] = {
        "problem": None if problem is None else Path(str(problem)).name,
        "data": _data(known),
        "model": _model(known.get("model") or _network(config), known.get("parameters")),
        "loss": _name(known.get("loss")),
        "models in a path, tau": _text(known.get("tau")),
        "step between models, sigma": _text(known.get("sigma")),
        "tilt, s": _tilts(last.get("s")),
        "prior of the first model": _prior(known.get("prior")),
        "acceptance test": _part(known.get("acceptance")),
        "moves": _part(known.get("move")),
        "order of updates": _part(known.get("scan")),
        "examples drawn": _drawn(known),
        "start": _start(config.get("start"), facts),
        "budget": None if facts.pairs is None else f"{facts.pairs:.3g} pairs of losses per chain",
        "chains": _text(known.get("chains")),
        "seed": _text(known.get("seed")),
        "epochs": f"{facts.epochs:,}",
        "burn-in": "not over yet" if facts.burn_in > facts.epochs else f"{facts.burn_in:,} epochs",
        "records": f"{facts.records['epoch'].shape[1]:,}" if facts.records else "none yet",
        "time": numerals.duration(stored.seconds),
        BY_NAME["data_used"].title: _used(last),
        "trajens, JAX, Python": ", ".join(
            str(machine[name]) for name in ("trajens", "jax", "python") if name in machine
        ),
        "machine": ", ".join(str(machine[name]) for name in ("system", "loss_kernel") if name in machine),
        "started": _moment(sessions[0].get("started")) if sessions else None,
        "sessions": str(len(sessions)) if len(sessions) > 1 else None,
    }
    return {name: text for name, text in found.items() if text}


def _data(known: dict[str, Any]) -> str | None:
    if known.get("max_batch"):
        return f"a stream, of which a decision reads {known['max_batch']:,} examples at most"
    return f"{known['examples']:,} examples" if "examples" in known else None


def settings_table(stored: StoredRun | Remembered, facts: RunFacts) -> Markup:
    """The same as a table, and all options as they were resolved."""
    rows = list(settings(stored, facts).items())
    half = -(-len(rows) // 2)
    halves = (rows[:half], "What was run"), (rows[half:], "What was run, continued")
    parts = [tag("div", *(table(some, label=label) for some, label in halves), class_="facts")]
    if stored.config:
        lines = "\n".join(
            f"{name} = {_cut(json.dumps(value, ensure_ascii=False))}" for name, value in stored.config.items()
        )
        parts.append(tag("details", tag("summary", "All options"), tag("pre", lines)))
    return tag("div", *parts)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} … ({len(text):,} characters)"


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return numerals.number(value) if isinstance(value, float) else _cut(str(value))


def _moment(text: Any) -> str | None:
    """A time in universal time, as one reads it."""
    return None if text is None else str(text).replace("T", " ").replace("+00:00", " UTC")


def _part(described: Any) -> str | None:
    return None if described is None else _cut(write_out(described))


def _name(described: Any) -> str | None:
    """The type of a part."""
    return None if described is None else _cut(write_out(described).split("(")[0])


def _model(description: dict[str, Any] | None, parameters: int | None) -> str | None:
    size = "" if parameters is None else f"{parameters:,} parameters"
    if description is None:
        return f"of one's own, {size}" if size else None
    words = [str(description.get("model", "network"))]
    if "sizes" in description:
        words.append(_dashed(description["sizes"]))
    if "channels" in description:
        words.append(f"of {' x '.join(map(str, description['shape']))}:")
        words += [f"{name} {_dashed(description[name])}" for name in ("channels", "kernel", "pooling")]
        words += [f"hidden {_dashed(description['hidden'])}"] if description["hidden"] else []
    if "activation" in description:
        words.append(str(description["activation"]))
    if "weights" in description:
        words.append(f"{description['weights']} weights")
    return f"{' '.join(words)}, {size}"


def _dashed(sizes: list[int]) -> str:
    return "-".join(map(str, sizes))


def _network(config: dict[str, Any]) -> dict[str, Any] | None:
    """The network that options describe: that of a policy is no part of what a loss says of itself."""
    if "sizes" not in config:
        return None
    return {name: config[name] for name in ("model", "sizes", "activation", "weights") if name in config}


def _start(name: Any, facts: RunFacts) -> str | None:
    begun = facts.started()
    if begun is None:
        return _text(name)
    share = numerals.whole_percent(begun.share)
    return f"{begun.way}, {begun.pairs:.3g} pairs of losses per chain ({share} of the budget)"


def _drawn(known: dict[str, Any]) -> str:
    if known.get("max_batch"):
        return "afresh for every decision"
    return "by their losses" if known.get("scores") else "alike"


def _prior(prior: Any) -> str:
    return "flat" if prior is None else f"normal, standard deviation {prior:g}"


def _tilts(s: np.ndarray | None) -> str | None:
    if s is None:
        return None
    values = list(dict.fromkeys(f"{value:.4g}" for value in s.tolist()))
    return ", ".join(values[:8]) + (f", … ({len(values)} values)" if len(values) > 8 else "") + " at the last record"


def _used(last: dict[str, np.ndarray]) -> str | None:
    if "data_used" not in last:
        return None
    used = BY_NAME["data_used"]
    kinds = [column for column in COLUMNS if column.unit == used.unit and column.name in last]
    parts = [f"{float(last[column.name].sum()):.3g} {column.title.removeprefix('data ')}" for column in kinds]
    return f"{', '.join(parts)} ({used.unit})"


class ScoreLabel(NamedTuple):
    """A number that an ensemble is judged by: its key, what it is called, and what it means."""

    key: str
    words: str
    shown: Shown
    meaning: str


CLASSIFIER = (
    ScoreLabel("vote_accuracy", "accuracy of the vote", numerals.percent, "the class most models choose is right"),
    ScoreLabel(
        "mean_accuracy", "accuracy of the mean", numerals.percent, "the class of the largest mean probability is right"
    ),
    ScoreLabel("single_accuracy", "accuracy of one model", numerals.percent, "mean over models"),
    ScoreLabel("nll", "negative log-likelihood", numerals.number, "nats per example, of the mean probabilities"),
    ScoreLabel("ece", "calibration error", numerals.percent, "mean |accuracy - confidence|, 0 is best"),
    ScoreLabel("brier", "Brier score", numerals.number, "squared error of probabilities, 0 is best"),
    ScoreLabel("disagreement", "disagreement", numerals.percent, "two models choose different classes"),
)
REGRESSOR = (
    ScoreLabel("rmse", "error of the mean", numerals.number, "root mean square, in the units of the labels"),
    ScoreLabel("r2", "R², variance explained", numerals.percent, "100 % is best"),
    ScoreLabel("single_rmse", "error of one model", numerals.number, "root mean square, mean over models"),
    ScoreLabel("spread", "spread of the models", numerals.number, "root mean square, in the units of the labels"),
    ScoreLabel(
        "coverage_68",
        "labels within 68 %",
        numerals.percent,
        "of the normal distribution; noise included if known",
    ),
    ScoreLabel("nll", "negative log-likelihood", numerals.number, "nats per example, of that normal distribution"),
)


def scores_of(evaluation: Evaluation) -> list[tuple[ScoreLabel, str]]:
    """Every score and how it reads."""
    found: dict[str, Any] = evaluation.scores
    return [
        (score, score.shown(found[score.key]))
        for score in (REGRESSOR if evaluation.predictions is None else CLASSIFIER)
    ]
