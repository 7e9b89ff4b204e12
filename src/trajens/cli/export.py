"""``trajens export``: ensembles as one file to take along."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trajens.cli.evaluate import CHAIN, SOURCES
from trajens.ensemble import Ensemble
from trajens.experiments.tried import trained


def export(
    sources: SOURCES,
    out: Annotated[Path, typer.Option(metavar="FILE", help="File to write.")] = Path("ensemble.npz"),
    chain: CHAIN = "0",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
) -> None:
    """Write the ensemble of a run, or of several, into one file, which knows its model and how its data are read.

    ``trajens evaluate``, ``trajens predict`` and ``tj.Ensemble.load`` take it in place of the directory.
    """
    ensemble = Ensemble.join(trained(source, chain) for source in sources)
    ensemble.save(out, overwrite)
    typer.echo(f"wrote {len(ensemble.path)} models to {out} ({out.stat().st_size / 1e6:.2g} MB)")
