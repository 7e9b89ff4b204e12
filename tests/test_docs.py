"""The documentation is true: its code runs, its commands and options exist, and so do the tests it names."""

import ast
import importlib.util
import json
import re
import runpy
from pathlib import Path

import pytest
from typer.main import get_command

import trajens as tj
from trajens import rl
from trajens.app.cli import app
from trajens.run.start import evolution_pairs
from trajens_paper import FIGURES

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [README, ROOT / "paper" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.py"))
OPTIONAL = ("arviz", "flax", "equinox", "optax", "sklearn", "torch")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def name_of(page):
    """A page as it is called in the tests."""
    return str(page.relative_to(ROOT).with_suffix("")).removeprefix("docs/")


def text_of(page):
    """The source of a page of the documentation."""
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def blocks(text, language):
    """Code of a language; commands have none."""
    return [code for name, code in BLOCK.findall(text) if name == language]


def sections():
    """Code of every section with Python in it; what stands before the first section is run before each of them."""
    for page in PAGES:
        first, *rest = re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        before = blocks(first, "python")
        for section in rest:
            if code := blocks(section, "python"):
                name = f"{name_of(page)}: {section.splitlines()[0]}"
                yield pytest.param("\n".join(before + code), id=name)


def hook(name):
    """A hook of MkDocs, which is no part of a package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "hooks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("code", list(sections()))
def test_the_code_of_a_section_runs(code, tmp_path, monkeypatch):
    for package in OPTIONAL:
        if re.search(rf"^(?:import|from) {package}\b", code, re.MULTILINE):
            pytest.importorskip(package, reason=f"{package} is not installed, and no dependency of trajens")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs", "exec"), {"__name__": "docs"})


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_and_their_options_exist(page):
    known = {"trajens": get_command(app), **dict(hook("cli_reference").commands(get_command(app)))}
    for block in blocks(page.read_text(encoding="utf-8"), ""):
        for line in block.replace("\\\n", " ").splitlines():
            if not line.startswith("trajens "):
                continue
            name = max((name for name in known if f"{line} ".startswith(f"{name} ")), key=len)
            assert name != "trajens" or re.match(r"trajens +(--|#)", line), line
            accepted = {o for p in known[name].params for o in (*p.opts, *p.secondary_opts)}
            assert set(re.findall(r"(?<=\s)--[a-z-]+", line)) <= accepted, line


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_tests_and_places_in_the_source_that_are_named_exist(page):
    text = page.read_text(encoding="utf-8")
    for file, name in re.findall(r"((?:paper/)?(?:tests|src|benchmarks|docs)/[\w/]+\.py)(?:::(\w+))?", text):
        assert (ROOT / file).is_file(), file
        assert not name or re.search(rf"(?:def|class) {name}\b", (ROOT / file).read_text(encoding="utf-8")), name
    for folder in re.findall(r"`(src/trajens(?:/\w+)*|paper/\w+(?:/\w+)*)`", text):
        assert (ROOT / folder).is_dir(), folder


def test_the_readme_is_short_and_its_rivals_are_those_of_their_page():
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 170
    table = text.split("calibration error |\n")[1].split("\n\n")[0].splitlines()[1:]
    rivals = text_of("results/rivals.md").splitlines()
    for row in table:
        _, start, count, _, seconds, vote, nll, ece = (cell.strip() for cell in row.strip("|").split("|"))
        assert start, row
        found = [line for line in rivals if f"| {count} |" in line and f"| {seconds} | {vote} |" in line]
        assert len(found) == 1, row
        assert found[0].endswith(f"| {nll} | {ece} |"), row


@pytest.mark.parametrize(
    ("said", "page", "found"),
    [
        ("7.9e4 proposals per second", "results/speed.md", "| one trajectory | 7.9e4 "),
        (
            "150 to 270 of a textbook PyTorch loop",
            "results/speed.md",
            "of Algorithm 1 | 1.5e2 to 2.7e2 |",
        ),
        ("60 % of a budget of up to 2.5e7 pairs", "theory/training.md", "of a budget of up to 2.5e7 pairs per chain"),
    ],
)
def test_numbers_of_the_readme_are_those_of_the_pages_they_come_from(said, page, found):
    assert said in " ".join(README.read_text(encoding="utf-8").split())
    assert found in text_of(page)


def test_the_share_of_the_start_that_pages_name_is_that_of_the_code():
    assert evolution_pairs(2.5e7) == 0.6 * 2.5e7
    assert evolution_pairs(1e9) < 0.2 * 1e9


def prose(text):
    """Lines with their numbers, without code, tables, formulas, pictures and lines that are one link."""
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            is_code = not is_code
        elif not is_code and not re.match(r"\s*(\||\$\$|!?\[|- `|(members|options|filters): )", line):
            yield number, line


AVOIDED = {
    r"(?<!power\s)\blaws?\b": "distribution",
    r"\bone's own\b": "your own",
    r"\bgone on with\b": "continued",
    r"\bby itself it\b": "automatically",
    r"\bhas no part in\b": "does not affect",
    r"\bthat of those\b": "say which",
    r"\bis told what\b": "say who does what",
    r"\bnobody else's\b": "private",
    r"\bwhat is not said\b": "options you leave out",
    r"\bas will be seen\b": "see below",
    r"\bis put right\b": "is corrected",
    r"\bwho finds\b": "a process that finds",
}
"""Words not to use, as patterns, and what to write instead."""
# Two pages that are lists of measurements.
AS_THEY_ARE = {"results/tables", "theory/tolerance"}


def avoided(text):
    """Words not to use that are in a text, without code, targets of links, formulas and headings."""
    plain = re.sub(r"`[^`]*`|\]\([^)]*\)|\$[^$]*\$|^#.*$", " ", text.lower(), flags=re.MULTILINE)
    return [found[0] for pattern in AVOIDED for found in re.finditer(pattern, plain)]


PROSE = [*(page for page in PAGES if name_of(page) not in AS_THEY_ARE), ROOT / "CONTRIBUTING.md"]


@pytest.mark.parametrize("page", PROSE, ids=name_of)
def test_lines_of_prose_are_short_and_in_plain_words(page):
    lines = list(prose(page.read_text(encoding="utf-8")))
    assert [(number, len(line)) for number, line in lines if len(line) > 120] == []
    assert avoided("\n".join(line for _, line in lines)) == []


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda file: file.stem)
def test_notebooks_are_in_plain_words(notebook):
    lines = notebook.read_text(encoding="utf-8").splitlines()
    assert avoided("\n".join(line.lstrip("# ") for line in lines if line.startswith("#"))) == []


def test_words_not_to_use_are_found_in_prose_and_not_in_code():
    assert avoided("The law of one's own.") == ["law", "one's own"]
    assert avoided("# The law\nA power law, a power\nlaw, `law`, [a link](laws.md#law) and $law$.") == []


def test_help_and_errors_say_distribution():
    """Strings that users read: help of commands, and sentences of errors."""
    reference = hook("cli_reference")
    assert avoided(reference.on_page_markdown(text_of("reference/cli.md"))) == []


def docstrings(root):
    """Docstrings of all modules, classes and functions below a folder, with the file and the name of each."""
    for file in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
                yield f"{file.relative_to(ROOT)}: {getattr(node, 'name', 'module')}", text


@pytest.mark.parametrize("root", ["src", "paper/src"])
def test_docstrings_say_distribution(root):
    texts = dict(docstrings(ROOT / root))
    assert len(texts) > 100
    assert [name for name, text in texts.items() if {"law", "laws"} & set(avoided(text))] == []


def test_long_lines_are_found_and_code_and_tables_are_not():
    long = "a" * 130
    assert [number for number, line in prose(f"{long}\n```\n{long}\n```\n| {long} |\n{long}") if len(line) > 120] == [
        1,
        6,
    ]


def test_rows_of_rivals_are_those_of_the_results():
    page = text_of("results/rivals.md").splitlines()
    for row in json.loads((ROOT / "paper" / "results" / "rivals" / "rivals.json").read_text())["rows"]:
        wanted = f"| {row['K']} |", f"| {row['vote']:.4f} |", f"| {row['nll']:.3f} | {row['ece']:.4f} |"
        assert any(all(part in line for part in wanted) for line in page), wanted


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda file: file.stem)
def test_names_that_notebooks_use_exist(notebook):
    text = notebook.read_text(encoding="utf-8")
    assert text.startswith("# ---\n# jupyter:")
    assert "# %% [markdown]\n# # " in text
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and re.fullmatch(r"(?:tj|rl)(\.\w+)+", name := ast.unparse(node)):
            eval(name, {"tj": tj, "rl": rl})


@pytest.mark.long
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda file: file.stem)
def test_notebooks_run(notebook, tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(notebook))


def test_every_command_and_option_is_in_the_reference():
    reference = hook("cli_reference")
    page = reference.on_page_markdown(text_of("reference/cli.md"))
    assert reference.PLACE not in page
    for name, command in reference.commands(get_command(app)):
        section = page.split(f"## {name}\n")[1].split("\n## ")[0]
        assert command.help in section
        for parameter in command.params:
            if parameter.param_type_name == "option" and not parameter.hidden:
                assert all(f"`{option}`" in section for option in parameter.opts), parameter.name


def test_the_page_of_figures_has_pictures_and_claims_of_all():
    page = hook("figure_numbers").on_page_markdown(text_of("results/figures.md"))
    assert "<!-- numbers" not in page
    for name in FIGURES:
        assert f"(../figures/quick/figure_{name}.png)" in page
    for picture in re.findall(r"\(\.\./(figures/\w+/\w+\.png)\)", page):
        assert (ROOT / "docs" / picture).is_file(), picture
    assert len(re.findall(r"\| (confirmed|undecided|refuted) \|", page)) > 20


def unexplained(page):
    """Classes that ``import trajens`` offers and a text does not name as code."""
    classes = [name for name in tj.api.__all__ if isinstance(getattr(tj, name), type)]
    assert len(classes) > 20
    return [name for name in classes if f"`tj.{name}`" not in page]


def test_the_glossary_has_every_class_of_the_api():
    page = text_of("reference/glossary.md")
    assert unexplained(page) == []
    assert unexplained(page.replace("`tj.Stream`", "`tj.StreamOfWords`")) == ["Stream"]


def test_broken_links_of_the_site_are_found(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "index.html").write_text('<h2 id="here"></h2><a href="#here"></a><a href="b/c.html#there"></a>')
    (tmp_path / "b" / "c.html").write_text('<p id="there"></p><a href="../"></a><a href="https://example.org/x"></a>')
    broken = hook("links").broken
    assert broken(tmp_path) == []
    wrong = '<a href="#no"></a><a href="d.html"></a><a href="b/c.html#no"></a><script src="https://example.org/x.js"></script>'
    (tmp_path / "index.html").write_text(wrong)
    assert broken(tmp_path) == [
        "index.html: #no leads to no such place on its page",
        "index.html: d.html leads nowhere",
        "index.html: b/c.html#no leads to no such place on its page",
        "index.html: https://example.org/x.js is fetched from elsewhere",
    ]


def test_formulas_become_mathml():
    pytest.importorskip("latex2mathml", reason="it is installed by make docs")
    text = hook("formulas").mathml(r"\frac{s}{\sigma}", is_display=True)
    assert "<mfrac>" in text
    assert 'class="formula"' in text
    with pytest.raises(ValueError, match="is not known"):
        hook("formulas").mathml(r"\Big\langle L \Big\rangle", is_display=False)
