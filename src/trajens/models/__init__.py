"""Networks with flat parameters, each of which makes a `Problem` from inputs and labels."""

from __future__ import annotations

from typing import Any

from trajens.errors import InputError, choice
from trajens.models.base import Model
from trajens.models.binary import Binary, binary
from trajens.models.cnn import Cnn, cnn
from trajens.models.mlp import ACTIVATION, ACTIVATIONS, Mlp, linear, mlp

__all__ = [
    "ACTIVATION",
    "ACTIVATIONS",
    "MODELS",
    "WEIGHTS",
    "Binary",
    "Cnn",
    "Mlp",
    "Model",
    "binary",
    "cnn",
    "described",
    "linear",
    "mlp",
]

MODELS = ("cnn", "mlp", "linear")
"""Names by which a model is asked for."""

WEIGHTS = ("real", "binary")
"""What weights may be; the first, unless another is asked for."""


def described(description: dict[str, Any]) -> Model:
    """The model with this `Model.description`; what else stands there is not looked at."""
    name, sizes = description.get("model"), description.get("sizes")
    if choice("weights", description.get("weights") or WEIGHTS[0], WEIGHTS) == "binary":
        return binary(described({**description, "weights": None}))
    if name == "cnn":
        return cnn()
    if name not in MODELS or sizes is None:
        raise InputError(
            f"a model must be described by its name, {', '.join(MODELS)}, and the sizes of its layers, got "
            f"{description!r}; pass the model itself."
        )
    return mlp(sizes, description.get("activation") or ACTIVATION)
