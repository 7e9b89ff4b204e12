"""Figures of the paper, one module each; a figure is imported, and Matplotlib with it, when it is drawn."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from trajens.figures.drawn import Drawn

__all__ = ["FIGURES", "Drawn"]


def _drawing(name: str) -> Callable[..., Drawn]:
    """``figure_NAME`` of the module ``figure_NAME``."""

    def draw(out: Path, **options: Any) -> Drawn:
        module = import_module(f"trajens.figures.figure_{name}")
        drawn: Drawn = getattr(module, f"figure_{name}")(out, **options)
        return drawn

    return draw


FIGURES: dict[str, Callable[..., Drawn]] = {
    name: _drawing(name) for name in ("1c", "3", "4", "5", "acceptance", "drift")
}
"""Name -> function of (out, scale, seed, progress)."""
