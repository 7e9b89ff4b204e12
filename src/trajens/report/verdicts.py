"""The verdict on a run, as one sees it first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from trajens.judgement import ATTENTION, OK, UNKNOWN, Judgement
from trajens.report.html import Markup, tag

WORDS = {OK: "in order", ATTENTION: "attention", UNKNOWN: "not known"}
"""Of every mark, beside its sign: colours alone say nothing."""
SIGNS = {OK: "✓", ATTENTION: "!", UNKNOWN: "?"}
_ORDER = (ATTENTION, UNKNOWN, OK)


def headline(judgements: Sequence[Judgement]) -> str:
    """All of them in one sentence."""
    count = Counter(judgement.mark for judgement in judgements)
    parts = [f"{count[OK]} of {len(judgements)} checks are in order"]
    if count[ATTENTION]:
        parts.append(f"{count[ATTENTION]} need{'s' * (count[ATTENTION] == 1)} attention")
    if count[UNKNOWN]:
        parts.append(f"{count[UNKNOWN]} cannot be answered")
    return f"{', '.join(parts)}."


def verdicts(judgements: Sequence[Judgement]) -> Markup:
    """A list of all, those that need attention first."""
    ordered = sorted(judgements, key=lambda judgement: _ORDER.index(judgement.mark))
    return tag("ul", *map(_item, ordered), class_="verdicts")


def mark(judgement: Judgement) -> Markup:
    """Sign and word of a judgement."""
    return marked(judgement.mark, WORDS[judgement.mark])


def marked(kind: str, word: str) -> Markup:
    """A word with the sign of a mark."""
    sign = tag("span", SIGNS[kind], class_="sign", aria_hidden="true")
    return tag("span", sign, tag("span", word, class_="word"), class_=f"mark {kind}")


def sentence(judgement: Judgement) -> str:
    """What was found, in the signs of a page."""
    return judgement.sentence.replace("+-", "±")


def _item(judgement: Judgement) -> Markup:
    said = [tag("p", sentence(judgement))]
    if judgement.following:
        said.append(tag("p", "Next: ", judgement.following, ".", class_="small"))
    return tag("li", tag("h3", judgement.name), mark(judgement), *said, class_=f"verdict {judgement.mark}")
