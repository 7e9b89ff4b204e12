"""Where things are kept that can be made again: unpacked data, and programs that were compiled."""

from __future__ import annotations

import os
import sys
from pathlib import Path

VARIABLE = "TRAJENS_CACHE"
"""Variable with another folder, or `OFF` for none."""
OFF = "off"


def cache_folder() -> Path | None:
    """``$TRAJENS_CACHE``, or ``trajens`` in the user's cache folder; None where nothing can or shall be kept."""
    if chosen := os.environ.get(VARIABLE):
        return None if chosen.lower() == OFF else Path(chosen).absolute()
    try:
        home = Path.home()
    except RuntimeError:
        # Nobody with an entry of their own, as some containers have it.
        return None
    if sys.platform == "darwin":
        base = home / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "trajens"
