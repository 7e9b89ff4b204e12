"""The documentation runs: code blocks, commands, links to tests, and the reference of the command line."""

import importlib.util
import re
from pathlib import Path

import pytest
from typer.main import get_command

from trajens.cli import app

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
OPTIONAL = ("flax", "equinox")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(text, language):
    return [code for name, code in BLOCK.findall(text) if name == language]


def sections():
    """(page, heading, code) of every section with Python in it; what stands before the first one is run before each."""
    for page in PAGES:
        first, *rest = re.split(r"^## ", page.read_text(), flags=re.MULTILINE)
        before = blocks(first, "python")
        for section in rest:
            if code := blocks(section, "python"):
                yield pytest.param("\n".join(before + code), id=f"{page.stem}: {section.splitlines()[0]}")


@pytest.mark.parametrize("code", list(sections()))
def test_the_code_of_a_section_runs(code, tmp_path, monkeypatch):
    for package in OPTIONAL:
        if re.search(rf"^import {package}\b", code, re.MULTILINE):
            pytest.importorskip(package, reason=f"{package} is not installed, and no dependency of trajens")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs", "exec"), {"__name__": "docs"})
