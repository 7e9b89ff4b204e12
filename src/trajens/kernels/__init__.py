"""Native loss kernels: the same losses as the JAX definition, faster, chosen by platform.

A kernel is an XLA FFI target in a library built from ``csrc`` beside this file. Where there is no library, or the
program runs on a platform that has no kernel, the JAX definition is used; the sampler cannot tell.
"""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from trajens.compiling import by_platform
from trajens.kernels.cpu_levels import CpuLevels

_IS_WINDOWS = os.name == "nt"
_log = logging.getLogger("trajens")


class Library(NamedTuple):
    """Whether the native kernels are loaded, and why (not)."""

    is_loaded: bool
    explanation: str
    levels: CpuLevels | None = None
    """Levels of vector instructions, of a CPU library that is loaded."""

    @property
    def rounding(self) -> str:
        """What losses are computed by, the same for two libraries that give the same bits."""
        is_fused = self.levels is None or self.levels.is_fused
        return self.explanation if is_fused else f"{self.explanation}, products rounded before they are added"


class _Build(NamedTuple):
    """Where the kernels of one platform come from."""

    variable: str
    symbol: str
    platform: str
    name: str
    compiler: str


SINGLE, HALF = "single", "half"
"""Precisions of the CUDA kernel. Half is twice as fast, with weights and hidden activations rounded: errors of 1e-4 in
the mean loss difference of a chunk."""
_ENDINGS = {"cpu": {SINGLE: ""}, "cuda": {SINGLE: "", HALF: "_half"}}
"""Of the symbols and targets of a platform, by precision."""
_BUILDS = {
    "cpu": _Build("TRAJENS_CPU_LIBRARY", "trajens_cnn_cpu", "cpu", "native C++ on CPUs", "C++"),
    "cuda": _Build("TRAJENS_CUDA_LIBRARY", "trajens_cnn_cuda", "CUDA", "native CUDA on NVIDIA GPUs", "CUDA"),
}
_CAPABILITY = (8, 0)
"""The oldest GPUs that the CUDA kernel has code for."""


def precision_of(asked: str | None) -> str:
    """The precision that the CUDA kernel computes in: ``$TRAJENS_CUDA_PRECISION``, what is asked for, or single."""
    return HALF if (os.environ.get("TRAJENS_CUDA_PRECISION") or asked) == HALF else SINGLE


def library(platform: str | None = None) -> Library:
    """Load the native kernels of "cpu" or "cuda" and register them with XLA, once.

    ``$TRAJENS_CPU_LIBRARY`` and ``$TRAJENS_CUDA_LIBRARY`` name other builds, ``$TRAJENS_CPU_LEVEL`` a level of vector
    instructions (`CpuLevels`).
    Without a platform: that of the device JAX computes on by default.
    """
    return _loaded(platform or ("cuda" if jax.default_backend() in ("gpu", "cuda") else "cpu"))


@cache
def _loaded(platform: str) -> Library:
    build = _BUILDS[platform]
    chosen = os.environ.get(build.variable)
    file = Path(chosen or Path(__file__).parent / f"trajens_{platform}.so")
    if not file.is_file():
        no_compiler = f"was not built: no {build.compiler} compiler at installation"
        is_unbuilt = "is not made for Windows" if _IS_WINDOWS else no_compiler
        return _missing(platform, f"is not there: ${build.variable} is {chosen}" if chosen else is_unbuilt)
    # JAX puts a registration off until it starts, and then does not start if the library is of another version.
    jax.default_backend()
    if platform == "cuda" and (old := _old_gpus()):
        needed = ".".join(map(str, _CAPABILITY))
        return _missing(platform, f"needs GPUs of compute capability {needed} and up, got {', '.join(old)}")
    try:
        loaded = ctypes.CDLL(str(file))
        for ending in _ENDINGS[platform].values():
            handler = jax.ffi.pycapsule(getattr(loaded, build.symbol + ending))
            jax.ffi.register_ffi_target(f"trajens_cnn{ending}", handler, platform=build.platform)
        levels = CpuLevels(loaded) if platform == "cpu" else None
    except (OSError, AttributeError, jax.errors.JaxRuntimeError) as error:
        return _missing(platform, f"could not be loaded: {error}")
    return Library(True, build.name, levels)


def _old_gpus() -> list[str]:
    """GPUs among those JAX sees that the kernel could not be launched on; a program is for all of them or for none."""
    try:
        devices = jax.devices("cuda")
    except RuntimeError:
        return []
    seen = {f"{device.device_kind} with {device.compute_capability}": device.compute_capability for device in devices}
    return [name for name, text in seen.items() if tuple(map(int, text.split("."))) < _CAPABILITY]


def _missing(platform: str, reason: str) -> Library:
    explanation = f"JAX definition (the native kernel {reason})"
    # Nobody misses a kernel for a platform that is not there.
    if (platform == "cpu" and not _IS_WINDOWS) or jax.default_backend() in ("gpu", "cuda"):
        _log.warning("%s", explanation)
    return Library(False, explanation)


@dataclass(frozen=True)
class Kernel:
    """A loss that has native code under the XLA target ``trajens_<name>``, in a precision that CUDA has several of."""

    name: str
    precision: str | None = None

    def is_for(self, data: Any) -> bool:
        """Whether the kernel is there and takes these data: bytes (N, 28, 28) and labels (N,) in bytes."""
        is_bytes = data.x.dtype == jnp.uint8 and data.y.dtype == jnp.uint8
        return is_bytes and data.x.shape[1:] == (28, 28) and any(library(platform).is_loaded for platform in _BUILDS)

    def __call__(
        self,
        definition: Callable[..., jax.Array],
        data: Any,
        theta_pairs: jax.Array,
        indices: jax.Array,
        is_active: jax.Array,
    ) -> jax.Array:
        """Losses of pairs, (lanes, 2, m); what comes out of a native kernel for inactive lanes is 0.

        ``definition(data, theta_pairs, indices, is_active)`` takes its place on platforms that have none.
        """
        shape = jax.ShapeDtypeStruct((indices.shape[0], 2, indices.shape[1]), jnp.float32)

        def native(
            ending: str, pairs: jax.Array, x: jax.Array, y: jax.Array, indices: jax.Array, is_active: jax.Array
        ) -> jax.Array:
            call = jax.ffi.ffi_call(f"trajens_{self.name}{ending}", shape)
            result: jax.Array = call(pairs, x, y, indices.astype(jnp.int32), is_active)
            return result

        def reference(pairs: jax.Array, x: jax.Array, y: jax.Array, *others: jax.Array) -> jax.Array:
            return definition(type(data)(x, y), pairs, *others)

        precision = precision_of(self.precision)
        endings = {platform: known.get(precision, "") for platform, known in _ENDINGS.items()}
        natives = {at: partial(native, ending) for at, ending in endings.items() if library(at).is_loaded}
        return by_platform(shape, theta_pairs, data.x, data.y, indices, is_active, default=reference, **natives)
