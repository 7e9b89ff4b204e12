"""What a model is: a number of parameters, a random start, and a function of flat parameters and inputs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from trajens.errors import choice, integer, pairs_of, require
from trajens.kernels import Kernel
from trajens.losses import LOSSES, Batch
from trajens.precision import as_single, numbers
from trajens.problem import EXACT, NOISE, Problem

PRIOR = 0.3
"""Standard deviation of the first model that suits networks whose inputs are of the order of one."""


class Layer(NamedTuple):
    """Weights of one shape and a bias; the last axis of the weights is the output."""

    shape: tuple[int, ...]

    @property
    def fan_in(self) -> int:
        """Inputs of one output."""
        return math.prod(self.shape[:-1])

    @property
    def size(self) -> int:
        """Weights and biases."""
        return math.prod(self.shape) + self.shape[-1]


class Model(ABC):
    """A network whose parameters are one flat vector; subclasses are frozen dataclasses."""

    @property
    @abstractmethod
    def description(self) -> dict[str, Any]:
        """Plain values from which `trajens.models.described` makes the same model again."""

    @property
    @abstractmethod
    def layers(self) -> tuple[Layer, ...]:
        """Layers in the order of their parameters: weights, then biases."""

    @property
    @abstractmethod
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""

    @abstractmethod
    def apply(self, theta: jax.Array, x: jax.Array) -> jax.Array:
        """Outputs (m, outputs) of the model `theta` on inputs (m, ...), of `input_shape` or flattened."""

    @property
    def kernel(self) -> Kernel | None:
        """The native kernel of the model's cross-entropy, if there is one."""
        return None

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return sum(layer.size for layer in self.layers)

    @property
    def layer_sizes(self) -> dict[str, int]:
        """Names of the layers and their numbers of parameters: conv1, conv2, .. and dense1, dense2, .."""
        sizes, counts = {}, {"conv": 0, "dense": 0}
        for layer in self.layers:
            kind = "dense" if len(layer.shape) == 2 else "conv"
            counts[kind] += 1
            sizes[f"{kind}{counts[kind]}"] = layer.size
        return sizes

    @property
    def outputs(self) -> int:
        """Numbers the model gives per input."""
        return self.layers[-1].shape[-1]

    @property
    def spread(self) -> np.ndarray:
        """Standard deviations (dim,) of random parameters: weights (inputs of the layer)^-1/2, biases 0."""
        parts = []
        for layer in self.layers:
            outputs = layer.shape[-1]
            parts += [np.full(layer.size - outputs, layer.fan_in**-0.5), np.zeros(outputs)]
        return np.concatenate(parts).astype(np.float32)

    def init(self, seed: int = 0) -> np.ndarray:
        """Random parameters N(0, spread^2)."""
        rng = np.random.default_rng(integer("seed", seed, 0, "any whole number will do"))
        return self.spread * rng.standard_normal(self.dim, np.float32)

    def unpack(self, theta: jax.Array) -> list[tuple[jax.Array, jax.Array]]:
        """Weights and biases of every layer."""
        parts, start = [], 0
        for layer in self.layers:
            middle, stop = start + layer.size - layer.shape[-1], start + layer.size
            parts.append((theta[start:middle].reshape(layer.shape), theta[middle:stop]))
            start = stop
        return parts

    def pack(self, parts: Iterable[tuple[Any, Any]]) -> np.ndarray:
        """Weights and biases of every layer as one flat vector (dim,), the inverse of `unpack`.

        Parameters
        ----------
        parts : sequence of pairs (weights, biases)
            One pair per layer, in the order and with the shapes of `layers`: the last axis of weights is the output.
            PyTorch has it first: pass ``weight.T`` of a dense layer.
        """
        shapes = [layer.shape for layer in self.layers]
        advice = f"give weights and biases for each of {len(shapes)} layers"
        given = pairs_of("parts", parts, advice)
        require(len(given) == len(shapes), f"parts must be {len(shapes)} pairs, got {len(given)}; {advice}.")
        vectors = []
        for number, (shape, (weights, biases)) in enumerate(zip(shapes, given, strict=True)):
            w, b = as_single(f"weights {number}", weights), as_single(f"biases {number}", biases)
            require(
                w.shape == shape and b.shape == shape[-1:],
                f"layer {number} must have weights {shape} and biases {shape[-1:]}, got {w.shape} and {b.shape}; the "
                "last axis of weights is the output, transpose those that have it first.",
            )
            vectors += [w.ravel(), b]
        return np.concatenate(vectors).astype(np.float32)

    def problem(self, x: Any, y: Any, loss: str = "cross-entropy") -> Problem:
        """Mean `loss` of the model on inputs x (N, ...) and labels y (N,) as a `Problem`.

        Chains start from different random parameters N(0, spread^2).

        Parameters
        ----------
        loss : "cross-entropy", "0-1" or "squared"
            Cross-entropy or wrong answers (`trajens.losses.ZeroOne`) for whole labels 0..outputs-1, or
            (y - output)^2 / 2 for a model of one output.
        """
        choice("loss", loss, LOSSES)
        x, y = as_bytes(numbers("x", x)), numbers("y", y)
        require(
            x.ndim > 1 and fits(x.shape[1:], self.input_shape) and y.shape == x.shape[:1],
            f"x must have shape (N, {', '.join(map(str, self.input_shape))}) and y (N,), got {x.shape} and {y.shape}; "
            "check the data or the model.",
        )
        if loss == "squared":
            require(
                self.outputs == 1, f"a squared loss needs a model of 1 output, got {self.outputs}; use mlp(..., 1)."
            )
            y = as_single("labels", y).astype(np.float32)
        else:
            require(
                self.outputs > 1 or loss != "0-1",
                f"a 0-1 loss needs a model of an output per class, got {self.outputs}; use squared to fit numbers.",
            )
            is_label = y.dtype.kind in "biu" and y.size > 0 and int(y.min()) >= 0 and int(y.max()) < self.outputs
            require(
                bool(is_label),
                f"labels must be whole numbers in 0..{self.outputs - 1}, got {y.dtype} from {y.min()} to {y.max()}; "
                "number the classes from 0.",
            )
            y = y.astype(np.uint8 if self.outputs <= 256 else np.int32)
        batch, layers = Batch(x, y), self.layer_sizes
        likelihood = {"cross-entropy": EXACT, "squared": NOISE}.get(loss)
        known: dict[str, Any] = {"spread": self.spread, "prior": PRIOR, "layers": layers, "likelihood": likelihood}
        return Problem(LOSSES[loss](self), batch, self.dim, **known)


def fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether inputs of this shape are those a model wants: as they are, flattened, or with axes of length 1."""
    given, known = (tuple(n for n in one if n != 1) for one in (shape, wanted))
    is_flat = len(given) <= 1 or len(known) <= 1
    return math.prod(given) == math.prod(known) and (is_flat or given == known)


def as_bytes(x: np.ndarray) -> np.ndarray:
    """Images of whole numbers 0..255 as bytes, whatever they were stored as; anything else as it is."""
    is_image = x.ndim >= 3 and x.dtype.kind in "iu" and x.dtype != np.uint8 and x.size > 0
    return x.astype(np.uint8) if is_image and x.min() >= 0 and x.max() <= 255 else x


def scale_bytes(x: jax.Array) -> jax.Array:
    """Bytes as numbers in 0..1, anything else as it is, in float32."""
    return x.astype(jnp.float32) / 255.0 if x.dtype == jnp.uint8 else x.astype(jnp.float32)
