"""HTML from Python: what is not markup already is escaped, so that no name of a file or a class becomes a tag."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

VOID = frozenset({"meta", "img", "br"})
"""Elements of a page that have no end tag."""


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """An element; `class_` is class, `data_tip` is data-tip, and what is None is left out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{given}>" + ("" if name in VOID else f"{joined(children)}</{name}>"))


def joined(parts: Iterable[Any]) -> Markup:
    """Parts one after the other, those that are not markup escaped."""
    return Markup("".join(part if isinstance(part, Markup) else html.escape(str(part)) for part in parts))


def table(rows: Iterable[Sequence[Any]], head: Sequence[Any] = (), label: str | None = None) -> Markup:
    """A table whose first column names its rows; it scrolls by itself where it is too wide."""
    heading = tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in head))) if head else Markup("")
    body = tag(
        "tbody",
        *(tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in rows),
    )
    # A region that scrolls must be reachable without a mouse.
    return tag("div", tag("table", heading, body), class_="scroll", tabindex="0", role="region", aria_label=label)


def panel(name: str, title: str, body: Any, look_for: str) -> Markup:
    """One figure: what it shows, and a sentence on what to look for; `name` is its anchor."""
    return tag("figure", tag("h3", title), body, tag("figcaption", look_for), class_="panel", id=f"panel-{name}")


def left_out(name: str, title: str, why: str) -> Markup:
    """In the place of a figure that cannot be drawn."""
    return tag("figure", tag("h3", title), tag("p", why, class_="why"), class_="panel absent", id=f"panel-{name}")


def tile(name: str, value: str, meaning: str) -> Markup:
    """A number by its name, with what it means."""
    return tag(
        "div",
        tag("p", name, class_="name"),
        tag("p", value, class_="value"),
        tag("p", meaning, class_="small"),
        class_="tile",
    )


def section(name: str, title: str, *children: Any) -> Markup:
    """A part of the page under a heading."""
    return tag("section", tag("h2", title, id=f"{name}-title"), *children, id=name, aria_labelledby=f"{name}-title")
