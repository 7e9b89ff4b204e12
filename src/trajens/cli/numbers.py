"""Numbers on their way in and out: ``2e5`` is a whole number, and JSON has no NaN."""

from __future__ import annotations

import math
from typing import Any

from trajens.experiments.kinds import whole

__all__ = ["finite", "whole"]


def finite(value: Any) -> Any:
    """`value` with every NaN and infinity inside replaced by None."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
