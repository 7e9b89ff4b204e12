"""Each rule of `structure` fails where it is broken, passes where it is not, and can be excused as long as it must."""

import subprocess
import sys
from pathlib import Path

import conftest
import pytest

from tests import structure
from tests.structure import Source, numbers, violations

CLEAN = {
    "__init__.py": "from trajens.run import sample as sample\n",
    "run.py": "from trajens.parts import Part\nfrom trajens.tools import turn\n\ndef sample(): ...\n",
    "other.py": "from trajens.parts import Part\nimport trajens.tools\n",
    "parts/__init__.py": "from trajens.parts.part import Part as Part\n",
    "parts/part.py": "class Part:\n    def __init__(self, a, b, c, d, e, f, g, h): ...\n",
    "tools.py": "def turn(*a): ...\n\nturn(1, 2, 3, 4, 5, *[6, 7], g=8)\n",
}
LAYERS = '[[tool.importlinter.contracts]]\nlayers = ["run | other", "parts", "tools"]\n'


@pytest.fixture
def checkout(tmp_path):
    """Writes the clean tree with these files instead or besides, and these lines of ``pyproject.toml``."""

    def write(files=(), settings=""):
        for name, text in {**CLEAN, **dict(files)}.items():
            file = tmp_path / "src" / "trajens" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        (tmp_path / "pyproject.toml").write_text(LAYERS + settings, encoding="utf-8")
        return tmp_path

    return write


def lines_of(count):
    return "x = 0\n" * count


def excuse(rule, name, reason='"it must be"'):
    return f'[tool.trajens.structure.{rule}]\n"{name}" = {reason}\n'


BROKEN = {
    "participles": (
        {"named.py": "def written(): ...\ndef seed(): ...\ndef _told(): ...\nclass A:\n    def used(self): ...\n"},
        "trajens.named.written",
        "src/trajens/named.py:1: trajens.named.written is no verb",
    ),
    "one-importer": (
        {"annex.py": lines_of(149), "run.py": "from trajens import annex\n" + CLEAN["run.py"]},
        "trajens.annex",
        "src/trajens/annex.py:1: trajens.annex has 149 lines and a single importer, trajens.run",
    ),
    "many-parameters": (
        {"wide.py": "class Wide:\n    def of(self, a, b, /, c, d, *e, f, g, h, **i): ...\n"},
        "trajens.wide.Wide.of",
        "src/trajens/wide.py:2: trajens.wide.Wide.of has 9 parameters; the most is 8",
    ),
    "class-names": (
        {"again.py": "def make():\n    class Part: ...\n"},
        "Part",
        "src/trajens/again.py:2: another class Part is at src/trajens/parts/part.py:1",
    ),
    "positional": (
        {"told.py": "def tell(f, g):\n    f.x(1, 2, 3, 4, 5, 6, *g)\n"},
        "trajens.told.tell: f.x",
        "src/trajens/told.py:2: trajens.told.tell: f.x is given 7 positional arguments; the most is 6",
    ),
    "long": (
        {"parts/__init__.py": CLEAN["parts/__init__.py"] + lines_of(500)},
        "trajens.parts",
        "src/trajens/parts/__init__.py:1: trajens.parts has 501 lines; the most is 500",
    ),
}


def test_a_clean_tree_passes(checkout):
    assert violations(Source(checkout())) == []


def test_every_rule_is_tried_here():
    assert set(BROKEN) == set(structure.RULES)


@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_rule_is_one_line(checkout, rule):
    files, _, line = BROKEN[rule]
    assert violations(Source(checkout(files))) == [f"{line} [{rule}]"]


@pytest.mark.parametrize("rule", BROKEN)
def test_an_excuse_is_heard(checkout, rule):
    files, name, _ = BROKEN[rule]
    assert violations(Source(checkout(files, excuse(rule, name)))) == []


@pytest.mark.parametrize("rule", BROKEN)
def test_an_excuse_must_be_needed(checkout, rule):
    _, name, _ = BROKEN[rule]
    (line,) = violations(Source(checkout(settings=excuse(rule, name))))
    assert line == f'pyproject.toml: [tool.trajens.structure.{rule}] excuses "{name}", which needs no excuse'


@pytest.mark.parametrize("reason", ['""', '" "', "true"])
def test_an_excuse_has_a_reason(checkout, reason):
    files, name, _ = BROKEN["class-names"]
    (line,) = violations(Source(checkout(files, excuse("class-names", name, reason))))
    assert 'gives no reason for "Part"' in line


@pytest.mark.parametrize("settings", [excuse("long-ones", "trajens.run"), "[tool.trajens.structure]\nlong = 1\n"])
def test_a_table_of_no_rule_is_refused(checkout, settings):
    (line,) = violations(Source(checkout(settings=settings)))
    assert "is not a table of a rule; rules are one-importer, " in line


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("def _wide(a, b, c, d, e, f, g, h, i): ...\n", "_wide"),
        ("class _Wide:\n    def of(self, a, b, c, d, e, f, g, h, i): ...\n", "_Wide.of"),
        ("wide = lambda a, b, c, d, e, f, g, h, i: 0\n", "<lambda>"),
    ],
)
def test_only_public_functions_may_have_many_parameters(checkout, text, name):
    settings = excuse("many-parameters", f"trajens.wide.{name}")
    (line,) = violations(Source(checkout({"wide.py": text}, settings)))
    assert line.endswith(f'excuses "trajens.wide.{name}", which is not public')


def test_a_constructor_may_have_many_parameters(checkout):
    text = "class Wide:\n    def __init__(self, a, b, c, d, e, f, g, h, i): ...\n"
    settings = excuse("many-parameters", "trajens.wide.Wide.__init__")
    assert violations(Source(checkout({"wide.py": text}, settings))) == []


def test_the_object_of_a_method_is_no_parameter_but_a_static_method_has_none(checkout):
    text = "class Wide:\n    {}\n    def of(a, b, c, d, e, f, g, h, i): ...\n"
    assert violations(Source(checkout({"wide.py": text.format("@classmethod")}))) == []
    assert len(violations(Source(checkout({"wide.py": text.format("@staticmethod")})))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "import trajens.annex\n",
        "from . import annex\n",
        "from .annex import x\n",
        "def later():\n    from trajens.annex import x\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from trajens.annex import x\n",
        "from trajens.parts import x\n",
        "from trajens import parts as p\n\np.x\n",
    ],
)
def test_every_way_to_import_makes_an_importer(checkout, text):
    files = {"annex.py": "x = 1\n", "parts/__init__.py": CLEAN["parts/__init__.py"] + "from ..annex import x\n"}
    (line,) = violations(Source(checkout({**files, "first.py": text})))
    assert line.startswith("src/trajens/annex.py:1: trajens.annex has 1 lines and a single importer, trajens.first ")
    assert violations(Source(checkout({**files, "first.py": text, "second.py": text}))) == []


def test_a_module_long_enough_may_stand_alone(checkout):
    files = {**BROKEN["one-importer"][0], "annex.py": lines_of(150)}
    source = Source(checkout(files))
    assert violations(source) == []
    assert source.importers["trajens.annex"] == {"trajens.run"}


def test_a_module_of_the_longest_length_passes(checkout):
    assert violations(Source(checkout({"tail.py": lines_of(500)}))) == []


def test_numbers(checkout):
    wide = BROKEN["many-parameters"]
    found = dict(row[:2] for row in numbers(Source(checkout(wide[0], excuse("many-parameters", wide[1])))))
    assert list(found.values()) == ["5", "15", "5", "3", "0", "2", "1 (1 excused)", "0", "0", "0", "0", "3"]


def test_what_is_loaded_later_or_for_types_is_not_reached(checkout):
    text = (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import trajens.other\n"
        "else:\n    import trajens.tools\n"
        "def sample():\n    import trajens.later\n"
        "try:\n    from trajens.parts import Part\nexcept ImportError: ...\n"
    )
    source = Source(checkout({"run.py": text, "later.py": ""}))
    assert source.home_of("sample") == "trajens.run"
    assert source.reached_from("trajens.run") == {"trajens.run", "trajens.tools", "trajens.parts.part"}


def test_sample_is_found_where_the_package_has_it_from(checkout):
    assert Source(checkout({"other.py": "def sample(): ...\n"})).home_of("sample") == "trajens.run"
    lazy = {"__init__.py": "", "other.py": ""}
    assert Source(checkout(lazy)).home_of("sample") == "trajens.run"
    assert Source(checkout({**lazy, "other.py": "def sample(): ...\n"})).home_of("sample") is None


def test_as_a_script(checkout):
    def run(*arguments):
        command = [sys.executable, structure.__file__, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True)

    clean = run(checkout(), "--check")
    assert (clean.returncode, clean.stdout) == (0, "")
    broken = run(checkout(BROKEN["long"][0]), "--check")
    assert (broken.returncode, broken.stdout.count("\n")) == (1, 1)
    report = run(checkout(BROKEN["long"][0]))
    assert report.returncode == 0
    assert report.stdout.splitlines()[0].split() == ["|", "now", "|", "target"]
    nothing = run(checkout() / "src")
    assert nothing.returncode == 2
    assert "is no Python package; give the root of a checkout" in nothing.stderr


def test_tests_are_in_the_folders_of_what_they_test():
    root = Path(__file__).parents[1]
    folders = {file.parent.relative_to(root / "tests") for file in (root / "tests").rglob("test_*.py")}
    ours = folders - {Path("laws"), Path("golden")}
    assert [str(folder) for folder in ours if not (root / "src" / "trajens" / folder).is_dir()] == []
    for name in (*conftest.COMPARE_BITS, *conftest.COMPARE_DEVICES, *conftest.SAMPLE_LONG, *conftest.DRAW_FEW):
        assert (root / f"{name}.py").is_file(), name
