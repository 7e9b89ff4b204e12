"""The verdict on a run, as one sees it first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from trajens.report.html import Markup, tag
from trajens.run.advice import ATTENTION, OK, UNKNOWN, Finding

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
    return marked(finding.mark, WORDS[finding.mark])


def marked(kind: str, word: str) -> Markup:
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
