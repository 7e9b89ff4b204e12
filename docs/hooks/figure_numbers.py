"""Pictures and claims on the page of figures, taken while the site is built from what `trajens figure` wrote.

A line ``<!-- numbers: NAME -->`` is replaced by the picture and the claims of that figure, for every scale that has a
folder ``figures/SCALE`` with its ``claims.json``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "figures"
PLACE = re.compile(r"^<!-- numbers: (\w+) -->$", re.MULTILINE)
SCALES = ("paper", "laptop", "quick")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """MkDocs calls this for every page."""
    return PLACE.sub(lambda place: "\n".join(numbers(place[1])), markdown)


def numbers(figure: str) -> Iterator[str]:
    """What there is of one figure, scale by scale."""
    for scale in SCALES:
        file = FOLDER / scale / "claims.json"
        found = json.loads(file.read_text()).get(figure) if file.is_file() else None
        if found is None:
            continue
        yield from (f"### Scale {scale} {{#{figure}-{scale}}}", "")
        yield from (f"![figure {figure}, scale {scale}](../figures/{scale}/figure_{figure}.png)", "")
        yield from ("| claim | value | error | | | verdict |", "|---|---|---|---|---|---|")
        for claim in found["claims"]:
            measured = f"{claim['value']:.4g} | {claim['error']:.2g}"
            expected = f"{claim['relation']} | {claim['reference']:.4g}"
            yield f"| {claim['claim']} | {measured} | {expected} | {claim['verdict']} |"
        yield ""
