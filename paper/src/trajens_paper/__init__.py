"""Figures of the paper, one module each; a figure is imported, and Matplotlib with it, when it is drawn."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from trajens_paper.frame import Finished

__all__ = ["FIGURES", "Finished"]


def _drawing(name: str) -> Callable[..., Finished]:
    """``figure_NAME`` of the module ``figure_NAME``."""

    def draw(out: Path, **options: Any) -> Finished:
        module = import_module(f"trajens_paper.figure_{name}")
        finished: Finished = getattr(module, f"figure_{name}")(out, **options)
        return finished

    return draw


FIGURES: dict[str, Callable[..., Finished]] = {
    name: _drawing(name) for name in ("perceptron", "mnist", "curves", "normality", "acceptance", "drift", "transition")
}
"""Name -> function of (out, scale, seed, progress)."""
