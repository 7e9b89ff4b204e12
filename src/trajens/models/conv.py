"""Convolutional networks for images of any shape, and the paper's, which is one of them.

(convolution -> max pool -> activation) for every layer of channels -> dense layers -> outputs
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp

from trajens.compiling import by_platform
from trajens.errors import InputError, choice, integer, require
from trajens.kernels import Kernel
from trajens.models.base import Layer, Model, scale_bytes
from trajens.models.cells import Stage
from trajens.models.mlp import ACTIVATION, ACTIVATIONS, dense

KERNEL, POOL, OUTPUTS = 3, 2, 10
"""Of convolutions and their pools, and classes, unless others are asked for."""
_CACHED = 2**20
"""Bytes that a core of a CPU works on at a time: about its cache."""
_AT_ONCE = 2**32
"""Bytes that a GPU works on at a time."""
_MOST_PLACES = 2**31
"""Numbers of images among which places are counted in 32 bits."""
_CAPABILITY = (8, 0)
"""The oldest GPUs whose tensor cores take bfloat16."""
_FLOAT = 4


@dataclass(frozen=True)
class ConvNet(Model):
    """A network of convolutions and dense layers; `conv_net` makes it, and says what its fields are."""

    shape: tuple[int, ...]
    channels: tuple[int, ...]
    kernels: tuple[int, ...]
    pools: tuple[int, ...]
    hidden: tuple[int, ...]
    classes: int
    activation: str = ACTIVATION

    def __repr__(self) -> str:
        # Runs of before know the loss of the paper's network by this.
        if self == _PAPER:
            return "Cnn()"
        return f"ConvNet({', '.join(f'{field.name}={getattr(self, field.name)!r}' for field in fields(self))})"

    @property
    def description(self) -> dict[str, Any]:
        if self == _PAPER:
            return {"model": "cnn"}
        return {
            "model": "conv",
            "shape": list(self.shape),
            "channels": list(self.channels),
            "kernel": list(self.kernels),
            "pooling": list(self.pools),
            "hidden": list(self.hidden),
            "outputs": self.classes,
            "activation": self.activation,
        }

    @property
    def layers(self) -> tuple[Layer, ...]:
        convolutions = [
            Layer((s.kernel, s.kernel, s.inputs, outputs))
            for s, outputs in zip(self.stages, self.channels, strict=True)
        ]
        last = self.stages[-1]
        sizes = (last.rows * last.columns * self.channels[-1], *self.hidden, self.classes)
        return (*convolutions, *(Layer(sizes) for sizes in pairwise(sizes)))

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.shape

    @property
    def kernel(self) -> Kernel | None:
        return Kernel("cnn") if self == _PAPER else None

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Convolutions with their pools; of their outputs those that later ones use."""
        inputs = (self._image[2], *self.channels[:-1])
        stages: list[Stage] = []
        rows, columns = self.sides[-1]
        for k, p, c in reversed(list(zip(self.kernels, self.pools, inputs, strict=True))):
            stages.insert(0, Stage(k, p, rows, columns, c))
            rows, columns = stages[0].used
        return tuple(stages)

    @property
    def sides(self) -> list[tuple[int, int]]:
        """Rows and columns of the images after every pool."""
        found, (rows, columns, _) = [], self._image
        for k, p in zip(self.kernels, self.pools, strict=True):
            rows, columns = (rows - k + 1) // p, (columns - k + 1) // p
            found.append((rows, columns))
        return found

    @property
    def _image(self) -> tuple[int, int, int]:
        return self.shape[0], self.shape[1], self.shape[2] if len(self.shape) == 3 else 1

    def apply(self, theta: jax.Array, x: jax.Array) -> jax.Array:
        def by_images(theta: jax.Array, x: jax.Array) -> jax.Array:
            return _in_parts(lambda some: at_once(theta, some), self._images_at_once, x)

        def at_once(theta: jax.Array, x: jax.Array) -> jax.Array:
            return self._of_models(theta[None], x)[0]

        outputs: jax.Array = jax.lax.platform_dependent(theta, x, cpu=by_images, default=at_once)
        return outputs

    def apply_pairs(self, theta_pairs: jax.Array, x: jax.Array, indices: jax.Array, is_active: jax.Array) -> jax.Array:
        """Outputs (lanes, 2, m, outputs) of pairs of models (lanes, 2, dim) on inputs `indices` (lanes, m) of x.

        A CPU takes as many images of one lane as its cache holds, a GPU as many lanes as its memory does.
        """
        forms = {"cpu": self._by_images}
        if x.dtype in (jnp.uint8, jnp.float32) and x.size < _MOST_PLACES and self._has_kernels:
            forms["cuda"] = self._by_kernels
        like = jax.ShapeDtypeStruct((*theta_pairs.shape[:2], indices.shape[1], self.classes), jnp.float32)
        return by_platform(like, theta_pairs, x, indices, is_active, default=self._by_lanes, **forms)

    def _by_images(self, theta_pairs: jax.Array, x: jax.Array, indices: jax.Array, is_active: jax.Array) -> jax.Array:
        def some(thetas: jax.Array, places: jax.Array) -> jax.Array:
            return self._of_models(thetas, x[places]).swapaxes(0, 1)

        def lane(given: tuple[jax.Array, ...]) -> jax.Array:
            thetas, places, is_active = given
            shape = (*indices.shape[1:], len(thetas), self.classes)
            # A loop over lanes can leave out those that wait.
            return jax.lax.cond(
                is_active,
                lambda: _in_parts(lambda places: some(thetas, places), self._images_at_once, places),
                lambda: jnp.zeros(shape, jnp.float32),
            )

        return jax.lax.map(lane, (theta_pairs, indices, is_active)).swapaxes(1, 2)

    def _by_lanes(self, theta_pairs: jax.Array, x: jax.Array, indices: jax.Array, is_active: jax.Array) -> jax.Array:
        size = max(1, _AT_ONCE // (self._bytes_of_image * indices.shape[1]))
        lanes = jax.vmap(lambda thetas, places: self._of_models(thetas, x[places]))
        return _in_parts(lanes, size, theta_pairs, indices)

    @property
    def _has_kernels(self) -> bool:
        if not _has_tensor_cores():
            return False
        # Where there is no such GPU, it is not loaded.
        from trajens.models.fused import is_for

        return is_for(self.channels)

    def _by_kernels(
        self, theta_pairs: jax.Array, x: jax.Array, indices: jax.Array, is_active: jax.Array, **how: Any
    ) -> jax.Array:
        from trajens.models.fused import features

        activation, stages = ACTIVATIONS[self.activation], self.stages
        images = x.reshape(len(x), *self._image)
        last = jax.vmap(jax.vmap(lambda h, parts: dense(h.reshape(len(h), -1), parts, activation)))

        def some(theta_pairs: jax.Array, indices: jax.Array) -> jax.Array:
            parts = jax.vmap(jax.vmap(self.unpack))(theta_pairs)
            convolutions, others = parts[: len(stages)], parts[len(stages) :]
            with jax.default_matmul_precision("highest"):
                return last(features(stages, convolutions, images, indices, activation, **how), others)

        held = sum(2 * _FLOAT * s.rows * s.columns * n for s, n in zip(stages, self.channels, strict=True))
        return _in_parts(some, max(1, _AT_ONCE // (held * indices.shape[1])), theta_pairs, indices)

    @property
    def _images_at_once(self) -> int:
        return max(1, _CACHED // self._bytes_of_image)

    @property
    def _bytes_of_image(self) -> int:
        """The most that a pair of models needs of an image at a time."""
        first, *others = zip(self.stages, self.channels, strict=True)
        return max(first[0].bytes_of_image(2 * first[1]), *(2 * s.bytes_of_image(n) for s, n in others), 1)

    def _of_models(self, thetas: jax.Array, x: jax.Array) -> jax.Array:
        """Outputs (n, m, outputs) of n models (n, dim), which have one product in the first layer."""
        activation, stages = ACTIVATIONS[self.activation], self.stages
        # Where a GPU would round to ten bits, losses of single precision are meant.
        with jax.default_matmul_precision("highest"):
            rows, columns = stages[0].used
            images = scale_bytes(x).reshape(len(x), *self._image)[:, :rows, :columns]
            (w, b), *others = jax.vmap(self.unpack)(thetas)
            joined = jnp.moveaxis(w, 0, -2).reshape(*w.shape[1:-1], -1)
            h = activation(stages[0].convolved(images, joined) + b.reshape(-1))
            h = jnp.moveaxis(h.reshape(*h.shape[:-1], len(thetas), -1), -2, 0)

            def rest(h: jax.Array, parts: list[tuple[jax.Array, jax.Array]]) -> jax.Array:
                for stage, (w, b) in zip(stages[1:], parts, strict=False):
                    h = activation(stage.convolved(h, w) + b)
                return dense(h.reshape(len(h), -1), parts[len(stages) - 1 :], activation)

            return jax.vmap(rest)(h, others)


def conv_net(
    shape: Sequence[int],
    channels: Sequence[int] | int,
    kernel: Sequence[int] | int = KERNEL,
    pool: Sequence[int] | int = POOL,
    hidden: Sequence[int] | int = (),
    outputs: int = OUTPUTS,
    activation: str = ACTIVATION,
) -> ConvNet:
    """A convolutional network for images of one shape: convolutions, each with a max pool, then dense layers.

    Convolutions add no border, and a pool drops the rows and columns that do not fill its last cell.

    Parameters
    ----------
    shape : (height, width) or (height, width, colours)
        Of an image.
    channels : int or sequence of int
        Outputs of every convolution, one after the other.
    kernel, pool : int or sequence of int
        Sides of the kernels and of the pools: one number, or one for each convolution; a pool of 1 is none.
    hidden : int or sequence of int
        Units of hidden dense layers behind the convolutions.
    outputs : int
        Classes, or 1 to fit numbers.
    activation : "relu", "tanh", "sigmoid" or "step"
    """
    advice = "try (32, 32, 3)"
    image = _wholes("shape", shape, advice)
    require(len(image) in (2, 3), f"shape must be (height, width) or (height, width, colours), got {shape}; {advice}.")
    layers = _wholes("channels", channels, "try (8, 16)")
    require(len(layers) > 0, f"channels must have a number for each convolution, got {channels}; try (8, 16).")
    net = ConvNet(
        shape=image,
        channels=layers,
        kernels=_each("kernel", kernel, len(layers)),
        pools=_each("pool", pool, len(layers)),
        hidden=_wholes("hidden", hidden, "try 32, or () for none"),
        classes=integer("outputs", outputs, 1, "give the number of classes"),
        activation=choice("activation", activation, ACTIVATIONS),
    )
    _check_sides(net)
    return net


_PAPER = ConvNet((28, 28), (16, 8), (5, 3), (2, 4), (), 10)


def cnn() -> ConvNet:
    """The paper's network of 1906 parameters for 28 x 28 images and 10 classes, which has native kernels.

    conv 5x5 x 16 -> max pool 2 -> ReLU -> conv 3x3 x 8 -> max pool 4 -> ReLU -> dense 10
    """
    return _PAPER


def _check_sides(net: ConvNet) -> None:
    """Refuse kernels and pools that leave nothing of an image."""
    rows, columns = net.shape[:2]
    for number, (k, p, sides) in enumerate(zip(net.kernels, net.pools, net.sides, strict=True)):
        seen = f"the {rows} x {columns} image that convolution {number + 1} is given"
        require(
            k <= min(rows, columns),
            f"kernel must be no larger than {seen}, got {k}; use a smaller kernel, less pooling or fewer channels.",
        )
        require(
            min(sides) > 0,
            f"pool must leave something of {seen}, got {p} after a kernel of {k}; use a smaller pool or kernel.",
        )
        rows, columns = sides


def _wholes(name: str, value: Any, advice: str) -> tuple[int, ...]:
    """One whole number or several as a tuple."""
    try:
        given = [value] if not hasattr(value, "__iter__") else list(value)
    except TypeError:
        raise InputError(f"{name} must be whole numbers, got {value!r}; {advice}.") from None
    return tuple(integer(f"every one of {name}", n, 1, advice) for n in given)


def _each(name: str, value: Any, layers: int) -> tuple[int, ...]:
    """A number for each convolution."""
    given = _wholes(name, value, "try 3" if name == "kernel" else "try 2")
    given = given * layers if len(given) == 1 else given
    require(
        len(given) == layers,
        f"{name} must be one number or one for each of {layers} convolutions, got {value}; give as many.",
    )
    return given


def _in_parts(function: Callable[..., jax.Array], size: int, *arrays: jax.Array) -> jax.Array:
    """`function` of arrays (n, ...), at most `size` of their rows at a time; parts are of one length."""
    n = len(arrays[0])
    parts = -(-n // size)
    if parts == 1:
        return function(*arrays)
    width = -(-n // parts)
    filled = [jnp.pad(a, ((0, parts * width - n), *[(0, 0)] * (a.ndim - 1))) for a in arrays]
    found = jax.lax.map(lambda some: function(*some), tuple(a.reshape(parts, width, *a.shape[1:]) for a in filled))
    return found.reshape(parts * width, *found.shape[2:])[:n]


@cache
def _has_tensor_cores() -> bool:
    """Whether all devices are GPUs that the kernels of `trajens.models.fused` are for."""
    known = [getattr(device, "compute_capability", "0.0") for device in jax.devices()]
    is_nvidia = all("nvidia" in device.device_kind.lower() for device in jax.devices())
    return is_nvidia and all(tuple(map(int, str(text).split("."))) >= _CAPABILITY for text in known)
