"""Notebooks are run while the site is built, and become pages with what they printed and drew.

Their sources are ``notebooks/*.py``, cells as jupytext writes them. What was run is kept in ``build/notebooks`` and taken
from there as long as neither the source nor the package has changed. Every page offers its notebook to download.
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
    text = []
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

    kept = KEPT / f"{source.stem}-{_version(source)}.ipynb"
    if kept.is_file():
        return nbformat.read(kept, as_version=4)
    notebook = jupytext.read(source)
    KEPT.mkdir(parents=True, exist_ok=True)
    try:
        NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": KEPT}}).execute()
    except Exception as error:
        raise PluginError(f"{source.name}: {_COLOUR.sub('', str(error))}") from error
    nbformat.write(notebook, kept)
    return notebook


def _version(source: Path) -> str:
    """A name for what a notebook depends on."""
    package = sorted((ROOT / "src" / "trajens").rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in (source, *package))).hexdigest()[:12]


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
