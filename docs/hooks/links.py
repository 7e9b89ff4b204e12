"""Every link of the finished site leads somewhere, and nothing is fetched from elsewhere while reading.

MkDocs checks what stands in Markdown; this looks at the pages as they are, with those that are made from the program,
from docstrings and from notebooks. Addresses of other sites are not asked for.
"""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Where a page can be entered, where it leads, and what it loads."""

    def __init__(self, file: Path):
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called for every tag."""
        given = {name: value or "" for name, value in attrs}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in ("img", "script", "iframe", "source") and "src" in given:
            self.loaded.append(given["src"])
        elif tag == "link" and given.get("rel", "") not in ("canonical", "next", "prev"):
            self.loaded.append(given["href"])


def on_post_build(config: Any, **_: Any) -> None:
    """MkDocs calls this when the site is written."""
    from mkdocs.exceptions import PluginError

    if wrong := broken(Path(config["site_dir"])):
        raise PluginError("\n".join(wrong))


def broken(site: Path) -> list[str]:
    """A line for every link that leads nowhere, and for everything that would be fetched from elsewhere."""
    pages = {file: Page(file) for file in sorted(site.rglob("*.html"))}
    return [
        f"{file.relative_to(site)}: {link} {trouble}"
        for file, page in pages.items()
        for links, is_loaded in ((page.links, False), (page.loaded, True))
        for link in links
        if (trouble := _trouble(link, file, site, pages, is_loaded))
    ]


def _trouble(link: str, file: Path, site: Path, pages: dict[Path, Page], is_loaded: bool) -> str:
    address = urlsplit(link)
    if address.scheme == "data":
        return ""
    if address.scheme or address.netloc:
        return "is fetched from elsewhere" if is_loaded else ""
    # The page of what is not found has addresses from the root of a server.
    base = site if address.path.startswith("/") else file.parent
    target = (base / unquote(address.path).lstrip("/")).resolve() if address.path else file
    if target.is_dir():
        target = target / "index.html"
    if not target.is_file():
        return "leads nowhere"
    is_found = not address.fragment or target not in pages or unquote(address.fragment) in pages[target].anchors
    return "" if is_found or address.fragment.startswith("__") else "leads to no such place on its page"
