"""Networks with flat parameters, each of which makes a `Problem` from inputs and labels."""

from __future__ import annotations

import warnings
from typing import Any

from trajens.errors import InputError, choice
from trajens.models.base import Model
from trajens.models.binary import Binary, binary
from trajens.models.conv import ConvNet, cnn, conv_net
from trajens.models.mlp import ACTIVATION, ACTIVATIONS, Mlp, linear, mlp

__all__ = [
    "ACTIVATION",
    "ACTIVATIONS",
    "MODELS",
    "WEIGHTS",
    "Binary",
    "ConvNet",
    "Mlp",
    "Model",
    "binary",
    "cnn",
    "conv_net",
    "described",
    "linear",
    "mlp",
]

MODELS = ("cnn", "mlp", "linear", "conv")
"""Names by which a model is asked for."""

WEIGHTS = ("real", "binary")
"""What weights may be; the first, unless another is asked for."""

_CONV = {name: name for name in ("shape", "channels", "kernel", "hidden", "outputs")} | {"pooling": "pool"}
"""What a convolutional network is described by, and the parameters of `conv_net` that they are."""


def described(description: dict[str, Any]) -> Model:
    """The model with this `Model.description`; what else stands there is not looked at."""
    name, sizes = description.get("model"), description.get("sizes")
    if choice("weights", description.get("weights") or WEIGHTS[0], WEIGHTS) == "binary":
        return binary(described({**description, "weights": None}))
    if name == "cnn":
        return cnn()
    if name == "conv" and all(description.get(key) is not None for key in _CONV):
        parts = {given: description[key] for key, given in _CONV.items()}
        return conv_net(**parts, activation=description.get("activation") or ACTIVATION)
    if name not in MODELS or sizes is None:
        raise InputError(
            f"a model must be described by its name, {', '.join(MODELS)}, and the sizes of its layers, got "
            f"{description!r}; pass the model itself."
        )
    return mlp(sizes, description.get("activation") or ACTIVATION)


def __getattr__(name: str) -> Any:
    if name == "Cnn":
        message = "trajens.models.Cnn is now called ConvNet, and its old name will go in the next version."
        warnings.warn(message, FutureWarning, stacklevel=2)
        return ConvNet
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
