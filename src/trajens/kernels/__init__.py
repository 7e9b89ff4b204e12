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
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

_log = logging.getLogger("trajens")


class Library(NamedTuple):
    """Whether the native kernels are loaded, and why (not)."""

    is_loaded: bool
    explanation: str


@cache
def library() -> Library:
    """Load the native kernels and register them with XLA, once; ``$TRAJENS_CPU_LIBRARY`` names another build."""
    file = Path(os.environ.get("TRAJENS_CPU_LIBRARY") or Path(__file__).parent / "trajens_cpu.so")
    if not file.is_file():
        explanation = "JAX definition (the native kernel was not built: no C++ compiler at installation)"
        _log.warning("%s", explanation)
        return Library(False, explanation)
    try:
        handler = ctypes.CDLL(str(file)).trajens_cnn_cpu
        jax.ffi.register_ffi_target("trajens_cnn", jax.ffi.pycapsule(handler), platform="cpu")
    except (OSError, AttributeError, jax.errors.JaxRuntimeError) as error:
        explanation = f"JAX definition (the native kernel could not be loaded: {error})"
        _log.warning("%s", explanation)
        return Library(False, explanation)
    return Library(True, "native C++ on CPUs")


@dataclass(frozen=True)
class Kernel:
    """A loss that has native code under the XLA target ``trajens_<name>``."""

    name: str

    def is_for(self, data: Any) -> bool:
        """Whether the kernel is there and takes these data: bytes (N, 28, 28) and labels (N,) in bytes."""
        is_bytes = data.x.dtype == jnp.uint8 and data.y.dtype == jnp.uint8
        return is_bytes and data.x.shape[1:] == (28, 28) and library().is_loaded

    def __call__(
        self,
        loss: Callable[..., jax.Array],
        data: Any,
        theta_pairs: jax.Array,
        indices: jax.Array,
        is_active: jax.Array,
    ) -> jax.Array:
        """`losses_of_pairs`; what comes out for inactive lanes is 0."""
        from trajens.problem import reference_losses

        shape = jax.ShapeDtypeStruct((indices.shape[0], 2, indices.shape[1]), jnp.float32)

        def native(pairs: jax.Array, x: jax.Array, y: jax.Array, indices: jax.Array, is_active: jax.Array) -> jax.Array:
            call = jax.ffi.ffi_call(f"trajens_{self.name}", shape)
            result: jax.Array = call(pairs, x, y, indices.astype(jnp.int32), is_active)
            return result

        def reference(pairs: jax.Array, x: jax.Array, y: jax.Array, indices: jax.Array, _: jax.Array) -> jax.Array:
            return reference_losses(loss, type(data)(x, y), pairs, indices)

        losses: jax.Array = jax.lax.platform_dependent(
            theta_pairs, data.x, data.y, indices, is_active, cpu=native, default=reference
        )
        return losses
