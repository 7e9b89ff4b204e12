"""HTML from Python: tags, and the frame of every page, one file that loads nothing from elsewhere.

What is not markup already is escaped, so that no name of a file or a class becomes a tag.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any

from trajens.version import __version__

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
    return Markup(f"<{name}{given}>" + ("" if name in VOID else f"{join(children)}</{name}>"))


def join(parts: Iterable[Any]) -> Markup:
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


NAME = "report.html"
"""What a page is called in the directory that it is about."""


def document(title: str, lead: str, body: Markup, source: str, renewed_every: float | None = None) -> str:
    """A page.

    Parameters
    ----------
    title, lead : str
        What it is about, and all of it in one sentence.
    body : Markup
        Its sections.
    source : str
        What it was made from.
    renewed_every : float, optional
        Seconds after which it loads itself again.
    """
    about = [
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"trajens {__version__}"),
    ]
    if renewed_every is not None:
        about.append(tag("meta", http_equiv="refresh", content=f"{renewed_every:.0f}"))
    style = tag("style", Markup(_resource("page.css")))
    head = tag("head", *about, tag("title", f"{title}: trajens report"), style)
    top = tag("header", tag("p", "trajens report", class_="kind"), tag("h1", title), tag("p", lead, class_="lead"))
    if renewed_every is not None:
        top = join([top, tag("p", f"Under way: renewed every {renewed_every:.0f} s.", class_="live")])
    foot = tag("footer", tag("p", f"Made by trajens {__version__} from {source}."))
    tip = tag("div", id="tip", role="status", aria_live="off")
    script = tag("script", Markup(_resource("page.js")))
    found = tag("html", head, tag("body", top, tag("main", body), foot, tip, script), lang="en")
    return f"<!DOCTYPE html>\n{found}\n"


def _resource(name: str) -> str:
    return files("trajens.app.report").joinpath(name).read_text(encoding="utf-8")
