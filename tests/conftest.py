"""Four virtual CPU devices, so that every run in the tests is a sharded one."""

import jax

jax.config.update("jax_num_cpu_devices", 4)
