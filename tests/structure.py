"""Measure how the source is cut into modules, and enforce the rules for it; needs the standard library only.

``python tests/structure.py [ROOT]`` prints the numbers of a checkout, beside what they shall come to.
``python tests/structure.py [ROOT] --check`` prints one line per violation and exits with 1 if there is any:

one-importer     a module under 150 lines that exactly one other module imports
many-parameters  a function with more than eight parameters; only public ones can be excused
class-names      a name that two classes have, private and inner ones included
positional       a call with more than six positional arguments, of which ``*more`` is one
long             a module or ``__init__.py`` over 500 lines
participles      a public function of a module whose name is a participle and nothing else, as ``written`` or ``tried``

Excuses are tables of ``pyproject.toml`` with the names of these rules, and an excuse that nothing needs is a violation:

    [tool.trajens.structure.many-parameters]
    "trajens.run.sample" = "its settings are what users look up"

Importers of a module are all that name it, also inside functions or for types only. What is imported from a package
counts as imported from the module that the package has it from; an ``__init__.py`` is no importer.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

PACKAGE = "trajens"
MAX_LINES = 500
MAX_PARAMETERS = 8
MAX_POSITIONAL = 6
MIN_LINES_ALONE = 150
"""Lines from which a module may have a single importer."""
RULES = ("one-importer", "many-parameters", "class-names", "positional", "long", "participles")
IRREGULAR = {"begun", "built", "chosen", "drawn", "found", "given", "held", "kept", "known", "left", "made", "met"}
IRREGULAR |= {"said", "seen", "shown", "spent", "taken", "told", "written"}
"""Participles that do not end in "ed"."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Offence(NamedTuple):
    """What a rule forbids: the rule, the name by which it can be excused, the place, and a sentence."""

    rule: str
    name: str
    place: str
    what: str


class Import(NamedTuple):
    """A module that is imported, or a name from it; `at_load` unless inside a function or for types only."""

    module: str
    name: str | None
    alias: str
    at_load: bool


class Scoped(NamedTuple):
    """A node with the dotted name of the module, class or function that it stands in, and whether that is a class."""

    node: ast.AST
    scope: str
    is_in_class: bool


@dataclass(frozen=True)
class Module:
    """One file of source."""

    name: str
    path: str
    text: str
    is_package: bool

    @property
    def lines(self) -> int:
        return self.text.count("\n") + (not self.text.endswith("\n") and bool(self.text))

    @cached_property
    def nodes(self) -> list[Scoped]:
        return list(_scoped(ast.parse(self.text, self.path), self.name, False))

    @cached_property
    def imports(self) -> list[Import]:
        return list(self._imports(ast.parse(self.text, self.path), True))

    def place(self, node: Any = None) -> str:
        """Where a node stands, as compilers write it."""
        return f"{self.path}:{node.lineno if node else 1}"

    def _imports(self, node: ast.AST, at_load: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for found in node.names:
                alias = found.asname or found.name.partition(".")[0]
                yield Import(found.name, None, alias, at_load)
        elif isinstance(node, ast.ImportFrom):
            for found in node.names:
                yield Import(self._absolute(node), found.name, found.asname or found.name, at_load)
        else:
            for field, value in ast.iter_fields(node):
                is_put_off = isinstance(node, _Function) or (field == "body" and _is_for_types(node))
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        yield from self._imports(child, at_load and not is_put_off)

    def _absolute(self, node: ast.ImportFrom) -> str:
        """Name of the module that is imported from, also where it is given relative to this one."""
        parts = self.name.split(".")
        kept = len(parts) + self.is_package - node.level if node.level else 0
        return ".".join([*parts[:kept], *([node.module] if node.module else [])])


class Source:
    """All modules of the package in a checkout, and who imports whom."""

    def __init__(self, root: Path) -> None:
        folder = root / "src" / PACKAGE
        if not (folder / "__init__.py").is_file():
            raise FileNotFoundError(f"{folder} is no Python package; give the root of a checkout")
        self.modules = {module.name: module for module in _read(root, folder)}
        """By dotted name; packages are their ``__init__.py``."""
        self.plain = [module for module in self.modules.values() if not module.is_package]
        self.num_at_top = len(list(folder.glob("*.py")))
        settings = root / "pyproject.toml"
        text = settings.read_text(encoding="utf-8") if settings.is_file() else ""
        self.tools: dict[str, Any] = tomllib.loads(text).get("tool", {})

    @property
    def excuses(self) -> dict[str, Any]:
        """Tables of names with reasons, by rule."""
        return self.tools.get(PACKAGE, {}).get("structure", {})

    @property
    def num_layers(self) -> int:
        """Number of layers of the first contract of import-linter."""
        contracts = self.tools.get("importlinter", {}).get("contracts", [])
        return len(contracts[0].get("layers", [])) if contracts else 0

    @cached_property
    def importers(self) -> dict[str, set[str]]:
        """Modules that import each module; neither are ``__init__.py``."""
        found: dict[str, set[str]] = {module.name: set() for module in self.plain}
        for module in self.plain:
            for name in self._used(module) - {module.name}:
                if name in found:
                    found[name].add(module.name)
        return found

    def _used(self, module: Module) -> set[str]:
        """Modules that define what a module imports, or takes from a package that it imports."""
        used = {self.definer(each.module, each.name) for each in module.imports}
        aliases = {each.alias: f"{each.module}.{each.name}" for each in module.imports if each.name}
        for node, _, _ in module.nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                package = self.modules.get(aliases.get(node.value.id, ""))
                if package and package.is_package:
                    used.add(self.definer(package.name, node.attr))
        return used

    def definer(self, module: str, name: str | None, known: frozenset[str] = frozenset()) -> str:
        """Module that `name` from `module` comes from, through any number of packages that pass it on."""
        if name is None or f"{module}.{name}" in self.modules:
            return f"{module}.{name}" if name else module
        if module not in self.modules or module in known or not self.modules[module].is_package:
            return module
        for each in self.modules[module].imports:
            if each.alias == name and each.name:
                return self.definer(each.module, each.name, known | {module})
        return module

    def home_of(self, function: str) -> str | None:
        """The module that defines a function of the package's own, or else the only one with such a function."""
        homes = {
            module.name
            for module in self.plain
            for node, scope, _ in module.nodes
            if isinstance(node, ast.FunctionDef) and scope == module.name and node.name == function
        }
        passed_on = self.definer(PACKAGE, function)
        return passed_on if passed_on in homes else homes.pop() if len(homes) == 1 else None

    def reached_from(self, start: str) -> set[str]:
        """Modules, without ``__init__.py``, that loading a module loads: itself, and those of imports when it loads."""
        reached: set[str] = set()
        waiting = [start]
        while waiting:
            name = waiting.pop()
            if name in reached or name not in self.modules:
                continue
            reached.add(name)
            waiting.append(name.rpartition(".")[0])
            for each in self.modules[name].imports:
                if each.at_load:
                    waiting += [each.module, f"{each.module}.{each.name}"]
        return {name for name in reached if not self.modules[name].is_package}


def _read(root: Path, folder: Path) -> Iterator[Module]:
    for file in sorted(folder.rglob("*.py")):
        is_package = file.name == "__init__.py"
        parts = (file.parent if is_package else file.with_suffix("")).relative_to(folder.parent).parts
        yield Module(".".join(parts), file.relative_to(root).as_posix(), file.read_text(encoding="utf-8"), is_package)


def _scoped(node: ast.AST, scope: str, is_in_class: bool) -> Iterator[Scoped]:
    """All nodes below a node."""
    for child in ast.iter_child_nodes(node):
        yield Scoped(child, scope, is_in_class)
        if isinstance(child, ast.ClassDef | _Function):
            name = getattr(child, "name", "<lambda>")
            yield from _scoped(child, f"{scope}.{name}", isinstance(child, ast.ClassDef))
        else:
            yield from _scoped(child, scope, is_in_class)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).rpartition(".")[2] == "TYPE_CHECKING"


def _num_parameters(function: _Function, is_in_class: bool) -> int:
    """Parameters that a caller gives, ``*more`` and ``**more`` one each; the object of a method is none."""
    given = function.args
    named = [*given.posonlyargs, *given.args]
    if is_in_class and not isinstance(function, ast.Lambda) and named:
        is_static = any(ast.unparse(each) == "staticmethod" for each in function.decorator_list)
        named = named[not is_static :]
    return len(named) + len(given.kwonlyargs) + bool(given.vararg) + bool(given.kwarg)


def offences(source: Source) -> list[Offence]:
    """Everything that the rules forbid, excused or not."""
    return [
        *_alone(source),
        *_many_parameters(source),
        *_class_names(source),
        *_positional(source),
        *_long(source),
        *_participles(source),
    ]


def _alone(source: Source) -> Iterator[Offence]:
    for name, (importer, *others) in sorted((name, sorted(of)) for name, of in source.importers.items() if of):
        module = source.modules[name]
        if not others and module.lines < MIN_LINES_ALONE:
            what = f"{name} has {module.lines} lines and a single importer, {importer}"
            yield Offence("one-importer", name, module.place(), what)


def _many_parameters(source: Source) -> Iterator[Offence]:
    for module in source.modules.values():
        for node, scope, is_in_class in module.nodes:
            if isinstance(node, _Function) and (count := _num_parameters(node, is_in_class)) > MAX_PARAMETERS:
                name = f"{scope}.{getattr(node, 'name', '<lambda>')}"
                what = f"{name} has {count} parameters; the most is {MAX_PARAMETERS}"
                yield Offence("many-parameters", name, module.place(node), what)


def _class_names(source: Source) -> Iterator[Offence]:
    places = defaultdict(list)
    for module in source.modules.values():
        for node, _, _ in module.nodes:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module.place(node))
    for name, (first, *others) in sorted(places.items()):
        if others:
            yield Offence("class-names", name, first, f"another class {name} is at {', '.join(others)}")


def _positional(source: Source) -> Iterator[Offence]:
    for module in source.modules.values():
        for node, scope, _ in module.nodes:
            if isinstance(node, ast.Call) and len(node.args) > MAX_POSITIONAL:
                name = f"{scope}: {ast.unparse(node.func)}"
                what = f"{name} is given {len(node.args)} positional arguments; the most is {MAX_POSITIONAL}"
                yield Offence("positional", name, module.place(node), what)


def _long(source: Source) -> Iterator[Offence]:
    for module in source.modules.values():
        if module.lines > MAX_LINES:
            what = f"{module.name} has {module.lines} lines; the most is {MAX_LINES}"
            yield Offence("long", module.name, module.place(), what)


def _participles(source: Source) -> Iterator[Offence]:
    for module in source.modules.values():
        for node, scope, _ in module.nodes:
            if isinstance(node, ast.FunctionDef) and scope == module.name and _is_participle(node.name):
                name = f"{scope}.{node.name}"
                yield Offence("participles", name, module.place(node), f"{name} is no verb")


def _is_participle(name: str) -> bool:
    return name in IRREGULAR or (name.isalpha() and name.endswith("ed") and not name.endswith("eed"))


def _is_excused(source: Source, offence: Offence) -> bool:
    table = source.excuses.get(offence.rule)
    return isinstance(table, dict) and offence.name in table


def violations(source: Source) -> list[str]:
    """One line for each offence without an excuse, and for each excuse that is not needed or not allowed."""
    found = offences(source)
    lines = [f"{each.place}: {each.what} [{each.rule}]" for each in found if not _is_excused(source, each)]
    return lines + list(_bad_excuses(source.excuses, {(each.rule, each.name) for each in found}))


def _bad_excuses(excuses: dict[str, Any], needed: set[tuple[str, str]]) -> Iterator[str]:
    for rule, table in excuses.items():
        where = f"pyproject.toml: [tool.{PACKAGE}.structure.{rule}]"
        if rule not in RULES or not isinstance(table, dict):
            yield f"{where} is not a table of a rule; rules are {', '.join(RULES)}"
            continue
        for name, reason in table.items():
            if (rule, name) not in needed:
                yield f'{where} excuses "{name}", which needs no excuse'
            elif not isinstance(reason, str) or not reason.strip():
                yield f'{where} gives no reason for "{name}"'
            elif rule == "many-parameters" and _is_private(name):
                yield f'{where} excuses "{name}", which is not public'


def _is_private(name: str) -> bool:
    """Whether a part of a dotted name is private or a lambda; ``__init__`` and its like are public."""
    return any(part.startswith(("_", "<")) and not part.endswith("__") for part in name.split("."))


def numbers(source: Source) -> list[tuple[str, str, str]]:
    """Rows of the table: what is counted, the number now, and the number aimed at."""
    found = offences(source)

    def counted(rule: str) -> str:
        of_rule = [each for each in found if each.rule == rule]
        excused = sum(_is_excused(source, each) for each in of_rule)
        return f"{len(of_rule)} ({excused} excused)" if excused else f"{len(of_rule)}"

    num_alone = sum(len(importers) == 1 for importers in source.importers.values())
    home = source.home_of("sample")
    return [
        ("installed modules, without __init__", f"{len(source.plain)}", "~128"),
        ("installed lines, with __init__", f"{sum(each.lines for each in source.modules.values())}", "~23800"),
        (f"files at the top of src/{PACKAGE}, with __init__", f"{source.num_at_top}", "16"),
        ("layers of the first import contract", f"{source.num_layers or '-'}", "18"),
        (f"files over {MAX_LINES} lines", counted("long"), "0"),
        ("median lines of a module", f"{median(each.lines for each in source.plain):g}", "~185"),
        (f"functions with > {MAX_PARAMETERS} parameters", counted("many-parameters"), "excused ones"),
        (f"calls with > {MAX_POSITIONAL} positional arguments", counted("positional"), "0"),
        ("modules with exactly one importer", f"{num_alone}", "-"),
        (f"  of these under {MIN_LINES_ALONE} lines", counted("one-importer"), "excused ones"),
        ("class names defined more than once", counted("class-names"), "0"),
        (f"modules behind {PACKAGE}.sample", f"{len(source.reached_from(home))}" if home else "-", "-"),
    ]


def table(rows: list[tuple[str, str, str]]) -> str:
    """Rows under a head, in columns."""
    rows = [("", "now", "target"), *rows]
    first, second, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
    return "\n".join(f"{what:{first}} | {now:>{second}} | {target}" for what, now, target in rows)


def main(arguments: list[str] | None = None) -> int:
    """Print the table, or with ``--check`` the violations; the exit status."""
    parser = argparse.ArgumentParser(description="Numbers and rules of how the source is cut into modules.")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parents[1], help="a checkout; this one")
    parser.add_argument("--check", action="store_true", help="print violations, and exit with 1 if there are any")
    given = parser.parse_args(arguments)
    try:
        source = Source(given.root)
    except FileNotFoundError as error:
        parser.error(str(error))
    lines = violations(source) if given.check else [table(numbers(source))]
    print(*lines, sep="\n", end="\n" if lines else "")
    return int(given.check and bool(lines))


if __name__ == "__main__":
    sys.exit(main())
