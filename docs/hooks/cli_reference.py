"""The reference of the command line, made from the commands themselves while the site is built.

The page ``cli.md`` holds a line `PLACE`; it is replaced by a section for every command, with a table for every group of
its options. There is no copy that could go stale.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

PLACE = "<!-- every command -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """MkDocs calls this for every page."""
    return markdown.replace(PLACE, reference()) if PLACE in markdown else markdown


def reference() -> str:
    """A section for every command that does something."""
    from typer.main import get_command

    from trajens.app.cli import app

    return "\n".join(line for name, command in commands(get_command(app)) for line in _section(name, command))


def commands(command: Any, name: str = "trajens") -> Iterator[tuple[str, Any]]:
    """Every command and the words it is called by; a group stands for its commands."""
    command = getattr(command, "loaded", command)
    if not hasattr(command, "commands"):
        yield name, command
        return
    for word, inner in command.commands.items():
        yield from commands(inner, f"{name} {word}")


def _section(name: str, command: Any) -> Iterator[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    usage = " ".join(_metavar(p) if p.required else f"[{_metavar(p)}]" for p in arguments)
    yield from (f"## {name}", "", command.help, "", "```", f"{name} [OPTIONS] {usage}".rstrip(), "```", "")
    if arguments:
        yield from ("| argument | meaning |", "|---|---|")
        yield from (f"| `{_metavar(p)}` | {_cell(p.help)} |" for p in arguments)
        yield ""
    for panel in dict.fromkeys(p.rich_help_panel for p in options):
        yield from (f"| {(panel or 'general').lower()} | meaning | default |", "|---|---|---|")
        for p in options:
            if p.rich_help_panel == panel:
                names = " ".join(f"`{n}`" for n in (*p.opts, *p.secondary_opts))
                value = "" if p.is_flag else f" `{_metavar(p)}`"
                yield f"| {names}{value} | {_cell(p.help)} | {_default(p)} |"
        yield ""


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _default(parameter: Any) -> str:
    """What is printed as the default: a text of its own, else the value, else nothing."""
    if isinstance(parameter.show_default, str):
        return _cell(parameter.show_default)
    is_shown = parameter.show_default and parameter.default is not None and not parameter.is_flag
    return _cell(str(parameter.default)) if is_shown else ""


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|").replace("\n", " ")
