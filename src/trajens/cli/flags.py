"""Flags made from the table of options, so that there is no second list of them.

Every flag is read as text and turned into its value by the kind of its option: what is wrong with it is said in our
one sentence.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Optional

import typer

from trajens.experiments.kinds import switch
from trajens.experiments.options import OPTIONS, RENAMED, Option


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """`command(..., **options)` with a flag for every option in place of ``**options``."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    flags = [_flag(name, option) for name, option in OPTIONS.items() if option.is_flag]
    flags += [_old_flag(name) for name in RENAMED]
    parameters = [p for p in own if p.kind is not inspect.Parameter.VAR_KEYWORD] + flags

    def framed(**values: Any) -> None:
        command(**values)

    framed.__name__, framed.__doc__ = command.__name__, command.__doc__
    framed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    framed.__annotations__ = {p.name: p.annotation for p in parameters}
    return framed


def _flag(name: str, option: Option) -> inspect.Parameter:
    flag = f"--{name.replace('_', '-')}"
    more: dict[str, Any] = {"rich_help_panel": option.group, "help": option.help, "show_default": option.shown or False}
    if option.kind is switch:
        return _parameter(name, Annotated[Optional[bool], typer.Option(f"{flag}/--no-{flag[2:]}", **more)])  # noqa: UP045
    return _parameter(name, Annotated[Optional[str], typer.Option(flag, metavar=option.metavar, **more)])  # noqa: UP045


def _old_flag(name: str) -> inspect.Parameter:
    hidden = typer.Option(f"--{name}", hidden=True, help=f"Now called --{RENAMED[name]}.")
    return _parameter(name, Annotated[Optional[str], hidden])  # noqa: UP045


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
