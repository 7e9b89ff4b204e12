"""The frame of every page: one file that loads nothing from elsewhere."""

from __future__ import annotations

from importlib.resources import files

from trajens.report.html import Markup, joined, tag
from trajens.version import __version__

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
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"trajens {__version__}"),
        Markup("") if renewed_every is None else tag("meta", http_equiv="refresh", content=f"{renewed_every:.0f}"),
        tag("title", f"{title}: trajens report"),
        tag("style", Markup(_resource("page.css"))),
    )
    top = tag("header", tag("p", "trajens report", class_="kind"), tag("h1", title), tag("p", lead, class_="lead"))
    if renewed_every is not None:
        top = joined([top, tag("p", f"Under way: renewed every {renewed_every:.0f} s.", class_="live")])
    foot = tag("footer", tag("p", f"Made by trajens {__version__} from {source}."))
    tip = tag("div", id="tip", role="status", aria_live="off")
    script = tag("script", Markup(_resource("page.js")))
    found = tag("html", head, tag("body", top, tag("main", body), foot, tip, script), lang="en")
    return f"<!DOCTYPE html>\n{found}\n"


def _resource(name: str) -> str:
    return files("trajens.report").joinpath(name).read_text(encoding="utf-8")
