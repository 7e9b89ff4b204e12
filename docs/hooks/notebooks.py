"""Notebooks are run while the site is built, and become pages with what they printed and drew.

Their sources are ``notebooks/*.py``, cells as jupytext writes them. What came out is kept in ``build/notebooks``, and
taken from there as long as neither their code nor the package has changed. Every page offers its notebook to download.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent.parent
SOURCES = ROOT / "docs" / "notebooks"
KEPT = ROOT / "build" / "notebooks"
SECONDS = 600
"""The longest that a cell may take, on a machine that is busy."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def on_files(files: Files, config: Any) -> Files:
    """MkDocs calls this with all that will be in the site."""
    for source in sorted(SOURCES.glob("*.py")):
        files.remove(files.src_uris[f"notebooks/{source.name}"])
        for name, content in pages(source).items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    return files


def pages(source: Path) -> dict[str, str | bytes]:
    """The page of a notebook, its pictures, and the notebook itself."""
    import nbformat

    done = run(source)
    made: dict[str, str | bytes] = {f"{source.stem}.ipynb": nbformat.writes(done)}
    text: list[str] = []
    for number, cell in enumerate(done.cells):
        text += [cell.source] if cell.cell_type == "markdown" else _code(cell, f"{source.stem}-{number}", made)
    head, _, rest = "\n\n".join(text).partition("\n")
    made[f"{source.stem}.md"] = f"{head}\n\n[Download this notebook]({source.stem}.ipynb){{ download }}\n{rest}\n"
    return made


def run(source: Path) -> Any:
    """The notebook of a source with its outputs."""
    import jupytext
    import nbformat
    from nbclient import NotebookClient

    notebook = jupytext.read(source)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    kept = KEPT / f"{source.stem}-{_version([cell.source for cell in cells])}.ipynb"
    if kept.is_file():
        before = (cell for cell in nbformat.read(kept, as_version=4).cells if cell.cell_type == "code")
        for cell, same in zip(cells, before, strict=True):
            cell.outputs, cell.execution_count = same.outputs, same.execution_count
        return notebook
    KEPT.mkdir(parents=True, exist_ok=True)
    where = {"metadata": {"path": KEPT}}
    try:
        NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources=where).execute()
    except Exception as error:
        raise PluginError(f"{source.name}: {_COLOUR.sub('', str(error))}") from error
    nbformat.write(notebook, kept)
    return notebook


def _version(code: list[str]) -> str:
    """A name for all that the outputs depend on."""
    package = sorted((ROOT / "src" / "trajens").rglob("*.py"))
    return hashlib.sha256(b"".join([*map(str.encode, code), *(file.read_bytes() for file in package)])).hexdigest()[:12]


def _code(cell: Any, name: str, made: dict[str, str | bytes]) -> Iterator[str]:
    """A cell and what came of it; pictures are added to what is made."""
    yield f"```python\n{cell.source}\n```"
    for place, output in enumerate(cell.outputs):
        data = output.get("data", {})
        if output.output_type == "stream":
            if output.name == "stdout":
                yield _text(output.text)
        elif "image/png" in data:
            picture = f"{name}-{place}.png"
            made[picture] = b64decode(data["image/png"])
            yield f"![what the cell above has drawn]({picture})"
        elif "text/plain" in data:
            yield _text(data["text/plain"])


def _text(said: str) -> str:
    return f"```text\n{_COLOUR.sub('', said).rstrip()}\n```"
