"""Figures of the paper, one module each; a figure is imported, and Matplotlib with it, when it is drawn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from trajens.figures.drawn import Drawn

__all__ = ["FIGURES", "Drawn"]


def _figure_1c(out: Path, **options: Any) -> Drawn:
    from trajens.figures.figure_1c import figure_1c

    return figure_1c(out, **options)


def _figure_5(out: Path, **options: Any) -> Drawn:
    from trajens.figures.figure_5 import figure_5

    return figure_5(out, **options)


def _figure_acceptance(out: Path, **options: Any) -> Drawn:
    from trajens.figures.figure_acceptance import figure_acceptance

    return figure_acceptance(out, **options)


FIGURES: dict[str, Callable[..., Drawn]] = {"1c": _figure_1c, "5": _figure_5, "acceptance": _figure_acceptance}
"""Name -> function of (out, scale, seed, progress)."""
