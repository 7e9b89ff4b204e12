"""Four virtual CPU devices, so that every run in the tests is a sharded one."""

import os

import jax
import pytest

jax.config.update("jax_num_cpu_devices", 4)


def pytest_configure(config):
    """Tests are about CPUs, on a machine with a GPU too, but for ``pytest -m gpu``.

    JAX has one default platform for the whole process, which is why the marker is asked and not each test. The variable
    is for processes that tests start.
    """
    if config.option.markexpr != "gpu":
        # Compiling is most of what the tests do.
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=1".strip()
        os.environ["JAX_PLATFORMS"] = "cpu"
        jax.config.update("jax_platforms", "cpu")


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 23 epochs, which end nowhere in particular."""
    monkeypatch.setattr("trajens.sampling.blocks.Blocks.__init__", lambda self, *_: setattr(self, "epochs", 23))
    monkeypatch.setattr("trajens.sampling.blocks.Blocks.adapt", lambda self, seconds: None)
