"""Formulas become MathML while the site is built: browsers draw it themselves, without a script or a font to fetch.

The extension ``pymdownx.arithmatex`` finds ``$..$`` and ``$$..$$``, and leaves them as ``\\(..\\)`` and ``\\[..\\]`` in
elements of class arithmatex.
"""

from __future__ import annotations

import html
import re
from typing import Any

_TILDE = "<mi>&#x0007E;</mi>"
_CAPITAL = re.compile(r"<mi>(&#x003(?:9|A)[0-9A-F];)</mi>")
_LOGARITHM = re.compile(r"<mi>ln</mi>(?!<mo)")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """MkDocs calls this for the body of every page."""
    from mkdocs.exceptions import PluginError

    def drawn(found: re.Match[str]) -> str:
        try:
            return mathml(html.unescape(found[2]), is_display=found[1] == "div")
        except Exception as error:
            raise PluginError(f"{page.file.src_uri}: {found[2]} is no formula: {error!r}") from error

    return FORMULA.sub(drawn, content)


def mathml(latex: str, is_display: bool) -> str:
    """A formula as an element of a page; one on lines of its own may be scrolled where the page is narrow."""
    from latex2mathml.converter import convert

    # A bar in the cell of a table would end it, so there it is written as \\lvert.
    latex = re.sub(r"\\[lr]vert *", "|", latex)
    drawn = convert(latex, display="block" if is_display else "inline")
    if unknown := re.search(r"\\[A-Za-z]+", drawn):
        # What the converter does not know it leaves as text.
        raise ValueError(f"{unknown[0]} is not known")
    # As LaTeX has them: relations with spaces around, capital letters of Greek upright, a space after a logarithm.
    drawn = drawn.replace(_TILDE, "<mo>&#x0223C;</mo>")
    drawn = _CAPITAL.sub(r'<mi mathvariant="normal">\1</mi>', drawn)
    drawn = _LOGARITHM.sub('<mi>ln</mi><mspace width="0.17em"/>', drawn)
    return f'<div class="formula">{drawn}</div>' if is_display else drawn
