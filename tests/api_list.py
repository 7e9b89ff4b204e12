"""What users may rely on, as text: public names with their parameters, options of an experiment, commands.

``python -m tests.api_list`` writes it to ``tests/api.txt``, one thing a line; `test_api` holds it against the code.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import MISSING, fields
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import typer

import trajens
import trajens.app.config

FILE = Path(__file__).parent / "api.txt"
ROOT = Path(trajens.__file__).parent
_INNER = {"app", "plots"}
"""Packages whose names are for the command line, not for users."""
_OFFERED = {"app.sweeps", "experiments"}
"""What users are offered of it."""
_PLAIN = (int, float, str, bytes, bool, tuple, type(None))


def lines() -> list[str]:
    """All of it, in the order of the alphabet."""
    return sorted({*_of_modules(), *_of_options(), *_of_commands()})


def _of_modules() -> Iterator[str]:
    """Names in `trajens` and in the ``__all__`` of its packages; what has two names is told once."""
    top = import_module("trajens.api")
    told = {}
    for name in (*top.__all__, *trajens._ABOVE):
        value = getattr(trajens, name)
        told[id(value)] = f"trajens.{name}"
        yield from _of_value(f"trajens.{name}", value)
    packages = {file.parent.name for file in ROOT.glob("*/__init__.py")} - _INNER | _OFFERED
    modules = {name for name in top.__all__ if isinstance(getattr(trajens, name), ModuleType)}
    for package in sorted(packages | modules):
        module = import_module(f"trajens.{package}")
        for name in getattr(module, "__all__", () if package in packages else _defined(module)):
            value = getattr(module, name)
            if id(value) in told:
                yield f"{module.__name__}.{name} is {told[id(value)]}"
            else:
                yield from _of_value(f"{module.__name__}.{name}", value)


def _defined(module: ModuleType) -> list[str]:
    """Public functions and classes of a module without ``__all__``, but not what it imports."""
    known = {name: getattr(value, "__module__", None) for name, value in vars(module).items()}
    return [name for name, home in known.items() if home == module.__name__ and not name.startswith("_")]


def _of_value(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield f"{name}{_signature(value)}" if not _is_fixed(value) else name
        yield from _of_members(name, value)
    elif callable(value):
        yield f"{name}{_signature(value)}"
    else:
        yield name if isinstance(value, ModuleType) else f"{name}: {type(value).__name__}"


def _of_members(name: str, owner: type) -> Iterator[str]:
    """Public methods and properties, those of bases of ours included."""
    for member in dir(owner):
        defined = next((base for base in owner.__mro__ if member in vars(base)), object)
        if member.startswith("_") or not defined.__module__.startswith("trajens"):
            continue
        value = inspect.getattr_static(owner, member)
        value = getattr(value, "__func__", value)
        if inspect.isfunction(value):
            yield f"{name}.{member}{_signature(value)}"
        else:
            yield f"{name}.{member}"


def _is_fixed(value: type) -> bool:
    """Whether nobody calls the class with arguments of ours."""
    return issubclass(value, (Enum, BaseException)) or getattr(value, "_is_protocol", False)


def _signature(value: Any) -> str:
    """Parameters with their kinds and defaults; types are for mypy to compare."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return "(..)"
    shown = [
        parameter.replace(annotation=inspect.Parameter.empty, default=_default(parameter.default))
        for parameter in found.parameters.values()
    ]
    return str(found.replace(parameters=shown, return_annotation=inspect.Signature.empty))


class _Text(str):
    """Shown without quotes."""

    __repr__ = str.__str__


def _default(value: Any) -> Any:
    """What is plain as it is; of other defaults only that there is one, since what they print is not ours."""
    if value is inspect.Parameter.empty or (isinstance(value, _PLAIN) and not isinstance(value, Enum)):
        return value
    return _Text(type(value).__name__ + "(..)" if type(value).__module__.startswith("trajens") else "..")


def _of_options() -> Iterator[str]:
    for field in fields(trajens.app.config.Config):
        default = _default(field.default) if field.default is not MISSING else _Text("..")
        yield f"option {field.name} = {default!r}"


def _of_commands() -> Iterator[str]:
    app = import_module("trajens.app.cli.app").app
    yield from _of_command("trajens", typer.main.get_command(app))


def _of_command(name: str, command: Any) -> Iterator[str]:
    command = getattr(command, "loaded", command)
    options = sorted(text for parameter in command.params for text in _spelled(parameter))
    yield " ".join([f"$ {name}", *options])
    for child, below in getattr(command, "commands", {}).items():
        yield from _of_command(f"{name} {child}", below)


def _spelled(parameter: Any) -> list[str]:
    if parameter.param_type_name == "argument":
        return [re.sub(r"\W+", "_", parameter.name).upper()]
    return [*parameter.opts, *parameter.secondary_opts]


if __name__ == "__main__":
    FILE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
