"""Four virtual CPU devices, so that every run in the tests is a sharded one."""

import os
import shutil
import tempfile

import jax
import pytest
from jax._src import compiler

jax.config.update("jax_num_cpu_devices", 4)


COMPARE_BITS = (
    "tests/run/test_reproducibility",
    "tests/test_precision",
    "tests/kernels/test_cpu",
    "tests/sampling/test_sampler",
    "tests/test_schedule",
    "tests/test_extending",
)
"""Files whose tests compare the bits of one program with those of another."""
COMPARE_DEVICES = "tests/sampling/test_exchange", "tests/test_stream"
"""Files with a test that compares numbers of devices, whose programs need not be optimised for it."""
SAMPLE_LONG = (
    "tests/test_docs",
    "tests/test_benchmarks",
    "tests/models/test_models",
    "paper/tests/test_quick_figures",
)
"""Files, beside the laws, that sample for longer than they compile."""
DRAW_FEW = ("tests/laws/test_conditionals",)
"""Laws that compile for longer than they draw."""

EMITTERS = {"xla_cpu_use_fusion_emitters": False} if jax.__version_info__ < (0, 11) else {}
"""XLA's option that says whether MLIR generates code, and what it is for the test that is run; newer ones have none."""
FLAGS = " ".join(
    ["--xla_backend_optimization_level=1", *(f"--{name}={value}".lower() for name, value in EMITTERS.items())]
)
"""How programs are compiled, here and in processes that tests start, where nothing else is said."""
WANTED = pytest.StashKey[tuple[bool, bool]]()
"""How the programs of the last test were compiled."""

COMPILED = "TRAJENS_TESTS_COMPILED"
"""Variable with the folder where the workers of one session leave the programs they compiled for each other."""


KEPT = "TRAJENS_CACHE"
"""Variable with the folder of what the package keeps for the next time."""


def pytest_configure(config):
    """Tests are about CPUs, on a machine with a GPU too, but for ``pytest -m gpu``.

    JAX has one default platform for the whole process, which is why the marker is asked and not each test. The variable
    is for processes that tests start.
    """
    if KEPT not in os.environ:
        # Processes under test keep what they unpack and compile here, and nothing in the folder of who runs the tests.
        os.environ[KEPT] = tempfile.mkdtemp(prefix="trajens-kept-")
        config.add_cleanup(lambda: shutil.rmtree(os.environ.pop(KEPT), ignore_errors=True))
    if config.option.markexpr != "gpu":
        # Compiling is most of what the tests do, and half of it is MLIR, which XLA can do without.
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAGS}".strip()
        compiler.get_compile_options = _with_emitters(compiler.get_compile_options)
        os.environ["JAX_PLATFORMS"] = "cpu"
        jax.config.update("jax_platforms", "cpu")
        if COMPILED not in os.environ:
            # A variable, which workers inherit; not one of JAX, so that processes under test do as they would alone.
            os.environ[COMPILED] = tempfile.mkdtemp(prefix="trajens-compiled-")
            config.add_cleanup(lambda: shutil.rmtree(os.environ.pop(COMPILED), ignore_errors=True))
        jax.config.update("jax_compilation_cache_dir", os.environ[COMPILED])
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def pytest_runtest_setup(item):
    """Few optimisations where a program costs more to compile than to run.

    Laws are sampled for long. Where bits of different programs are compared, they are those a user has, but in
    ``make test``, which does without MLIR there too.
    """
    if item.config.option.markexpr == "gpu":
        return
    name = item.path.relative_to(item.config.rootpath).with_suffix("").as_posix()
    is_quick = "not slow" in item.config.option.markexpr
    has_emitters = name in (*COMPARE_BITS, *COMPARE_DEVICES) and not is_quick
    is_optimised = "laws" in item.path.parts or name in (*COMPARE_BITS, *SAMPLE_LONG)
    wanted = has_emitters, is_optimised and name not in DRAW_FEW
    if wanted != item.config.stash.get(WANTED, wanted):
        # JAX does not ask how a program it has was compiled.
        jax.clear_caches()
    item.config.stash[WANTED] = wanted
    EMITTERS.update(dict.fromkeys(EMITTERS, wanted[0]))
    jax.config.update("jax_disable_most_optimizations", not wanted[1])


def _with_emitters(get_compile_options):
    """JAX's options of a compilation, with the choice of code generators of the test that is run."""

    def get(*args, **settings):
        options = get_compile_options(*args, **settings)
        options.env_option_overrides = [*options.env_option_overrides, *EMITTERS.items()]
        return options

    return get


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 23 epochs, which end nowhere in particular."""
    monkeypatch.setattr("trajens.run.loop.Blocks.__init__", lambda self, *_: setattr(self, "epochs", 23))
    monkeypatch.setattr("trajens.run.loop.Blocks.adapt", lambda self, seconds: None)
