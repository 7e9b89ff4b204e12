"""One JAX device per CPU core: chains are spread over devices, and by default JAX sees a single one."""

from __future__ import annotations

import os

import jax

from trajens.errors import InputError, first_line


def num_cores() -> int:
    """Cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def use_all_cores() -> None:
    """Give JAX one CPU device per core, unless the user chose a number or JAX is already running."""
    _give_all_cores()
    require_devices()


def require_devices() -> None:
    """Refuse a platform that JAX was told to use and cannot."""
    try:
        jax.devices()
    except (RuntimeError, AssertionError) as error:
        # Without a plugin for it, JAX answers the platform cuda with an empty AssertionError.
        reason = f" ({first_line(error)})" if str(error) else ""
        raise InputError(
            f"JAX_PLATFORMS must name platforms that are here, got '{jax.config.values['jax_platforms']}', which JAX "
            f"cannot use{reason}; unset it, or use JAX_PLATFORMS=cpu."
        ) from None


def _give_all_cores() -> None:
    is_chosen = getattr(jax.config, "jax_num_cpu_devices", 0) > 0
    if is_chosen or "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return
    try:
        jax.config.update("jax_num_cpu_devices", num_cores())
    except RuntimeError:
        # The number of devices is fixed once JAX has used one.
        return
