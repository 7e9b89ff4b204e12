"""The native kernel gives the losses of the JAX definition, and leaves inactive lanes alone."""

import os
import shutil
import subprocess
import sys
import warnings
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trajens as tj
from tests.small_run import StopAfter, again, fresh, sample
from trajens import kernels
from trajens.kernels import library
from trajens.kernels.cpu_levels import NAMES
from trajens.losses import losses_of_pairs, reference_losses

pytestmark = pytest.mark.skipif(not library("cpu").is_loaded, reason=library("cpu").explanation)

RNG = np.random.default_rng(5)
SIZE = 300
DATA = (RNG.integers(0, 256, (SIZE, 28, 28), dtype=np.uint8), (np.arange(SIZE) % 10).astype(np.uint8))
PROBLEM = tj.models.cnn().problem(*DATA)

native = jax.jit(lambda *a: losses_of_pairs(PROBLEM.loss, PROBLEM.data, *a))
reference = jax.jit(lambda pairs, indices: reference_losses(PROBLEM.loss, PROBLEM.data, pairs, indices))


def pairs_of(lanes, size):
    return jnp.asarray(size * RNG.standard_normal((lanes, 2, 1906)), jnp.float32)


def assert_same_losses(got, expected):
    """1e-5 relative; a loss far below the largest logit is limited by the rounding of that logit."""
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("size", [0.05, 0.25, 1.0, 3.0])
def test_native_losses_are_those_of_the_definition(size):
    pairs = pairs_of(3, size)
    indices = jnp.asarray(RNG.permutation(SIZE)[None].repeat(3, 0), jnp.int32)
    assert_same_losses(native(pairs, indices, jnp.ones(3, bool)), reference(pairs, indices))


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param([*range(1, 18), *range(18, SIZE, 23), SIZE - 1, SIZE], id="some"),
        pytest.param(range(1, SIZE + 1), id="all", marks=pytest.mark.long),
    ],
)
def test_every_chunk_size_gives_the_losses_of_the_largest(sizes):
    pairs = pairs_of(1, 0.5)
    indices = jnp.arange(SIZE, dtype=jnp.int32)[None]
    whole = np.asarray(native(pairs, indices, jnp.ones(1, bool)))
    every = jax.jit(lambda p, i, a: [losses_of_pairs(PROBLEM.loss, PROBLEM.data, p, i[:, :m], a) for m in sizes])
    for m, losses in zip(sizes, every(pairs, indices, jnp.ones(1, bool)), strict=True):
        np.testing.assert_array_equal(losses, whole[:, :, :m])


@pytest.mark.parametrize("seed", range(12))
def test_random_shapes_and_active_lanes(seed):
    rng = np.random.default_rng(seed)
    lanes, m = int(rng.integers(1, 9)), int(rng.integers(1, 70))
    pairs, is_active = pairs_of(lanes, 1.0), rng.random(lanes) < 0.6
    indices = jnp.asarray(rng.integers(0, SIZE, (lanes, m)), jnp.int32)
    losses = np.asarray(native(pairs, indices, jnp.asarray(is_active)))
    assert losses.shape == (lanes, 2, m)
    assert (losses[~is_active] == 0).all()
    # The definition is compiled once, for the largest of these shapes.
    more = (0, 8 - lanes)
    largest = reference(np.pad(pairs, (more, (0, 0), (0, 0))), np.pad(indices, (more, (0, 69 - m))))
    assert_same_losses(losses[is_active], np.asarray(largest)[:lanes, :, :m][is_active])


@pytest.mark.slow
def test_losses_do_not_depend_on_the_number_of_threads():
    code = (
        "import numpy as np, jax.numpy as jnp, hashlib; import tests.kernels.test_cpu as t; "
        "rng = np.random.default_rng(0); pairs = jnp.asarray(rng.standard_normal((4, 2, 1906)), jnp.float32); "
        "i = jnp.asarray(rng.integers(0, t.SIZE, (4, 240)), jnp.int32); "
        "print(hashlib.sha256(np.asarray(t.native(pairs, i, jnp.ones(4, bool))).tobytes()).hexdigest())"
    )
    digests = set()
    for threads in ("1", "2"):
        env = {**os.environ, "TRAJENS_NUM_THREADS": threads}
        digests.add(subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True).stdout)
    assert len(digests) == 1
    assert len(digests.pop().strip()) == 64


@pytest.fixture
def levels():
    found = library("cpu").levels
    before = found.in_use
    yield found
    found.use(before)


def test_every_level_of_instructions_gives_the_losses_of_the_definition(levels):
    indices = jnp.asarray(RNG.permutation(SIZE)[None].repeat(3, 0), jnp.int32)
    bits = {True: set(), False: set()}
    pairs = jnp.concatenate([pairs_of(1, size) for size in (0.05, 0.5, 3.0)])
    expected = reference(pairs, indices)
    for name in levels.names:
        levels.use(name)
        losses = np.asarray(native(pairs, indices, jnp.ones(3, bool)))
        assert_same_losses(losses, expected)
        bits[levels.is_fused].add(losses.tobytes())
    # Levels that round alike give the same bits; the fastest of every family does.
    assert all(len(same) <= 1 for same in bits.values())
    assert bits[True] != bits[False]


def test_a_level_is_chosen_by_a_variable_and_named(levels):
    for name in levels.names:
        env = {**os.environ, "TRAJENS_CPU_LEVEL": name, "COLUMNS": "200"}
        command = [sys.executable, "-m", "trajens", "info"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        assert f"native C++ on CPUs, {NAMES[name]}" in done.stdout


@pytest.mark.parametrize("name", ["avx1024", "AVX2", " "])
def test_a_level_that_is_not_there_is_refused_in_a_sentence(levels, name):
    with pytest.raises(tj.InputError, match=r"TRAJENS_CPU_LEVEL must be a level that this processor can run \(.*got"):
        levels.use(name)
    env = {**os.environ, "TRAJENS_CPU_LEVEL": name}
    command = [sys.executable, "-m", "trajens", "info"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("trajens: error: TRAJENS_CPU_LEVEL must be")


def test_levels_that_round_differently_are_told_apart_and_others_are_not(levels):
    said = {}
    for name in levels.names:
        levels.use(name)
        said.setdefault(levels.is_fused, set()).add(library("cpu").rounding)
    assert all(len(same) == 1 for same in said.values())
    assert len(set().union(*said.values())) == len(said)


def test_a_run_that_goes_on_at_a_level_that_rounds_differently_says_so(levels, tmp_path):
    apart = [name for name in levels.names if _is_fused(levels, name) != _is_fused(levels, levels.names[0])]
    if not apart:
        pytest.skip("all levels of this processor round alike")
    levels.use(levels.names[0])
    sample(fresh(tmp_path / "run"), epochs=300, stop=StopAfter(0))
    for name, ends in (levels.names[1], StopAfter(0)), (apart[0], None):
        levels.use(name)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            sample(again(tmp_path / "run"), epochs=300, stop=ends)
        said = [str(one.message) for one in caught if "was last run with" in str(one.message)]
        assert len(said) == (name in apart)
        assert all("loss_kernel" in one and "products rounded before they are added" in one for one in said)


def _is_fused(levels, name):
    before = levels.in_use
    levels.use(name)
    is_fused = levels.is_fused
    levels.use(before)
    return is_fused


def test_multiply_adds_are_counted(levels):
    assert levels.multiply_adds_per_second(0.01) > 0
    once = levels._library.trajens_cpu_multiply_adds(1)
    assert levels._library.trajens_cpu_multiply_adds(1000) == 1000 * once > 0


@pytest.mark.slow
def test_a_cuda_library_that_cannot_be_loaded_leaves_the_cpu_kernel_alone(tmp_path):
    text = tmp_path / "text.so"
    text.write_text("no library")
    code = (
        "import jax.numpy as jnp; import tests.kernels.test_cpu as t; from trajens.kernels import library; "
        "arguments = t.pairs_of(1, 1.0), jnp.zeros((1, 2), jnp.int32), jnp.ones(1, bool); "
        "assert (t.native(*arguments) > 0).any(); "
        "print('trajens_cnn' in t.native.lower(*arguments).as_text()); print(library('cuda').explanation)"
    )
    reasons = {text: "could not be loaded", tmp_path / "missing.so": "is not there: $TRAJENS_CUDA_LIBRARY"}
    for file, reason in reasons.items():
        env = {**os.environ, "TRAJENS_CUDA_LIBRARY": str(file)}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        has_kernel, explanation = done.stdout.splitlines()
        assert has_kernel == "True"
        assert explanation.startswith("JAX definition")
        assert reason in explanation
        assert str(file) in explanation


@pytest.mark.parametrize(("capabilities", "is_refused"), [("8.0 9.0", False), ("12.0", False), ("9.0 7.5", True)])
def test_gpus_that_are_too_old_for_the_kernel_run_the_definition(monkeypatch, caplog, capabilities, is_refused):
    """A kernel without code for one of the GPUs would fail at its first launch, long after it was chosen."""
    gpus = [SimpleNamespace(device_kind="Some GPU", compute_capability=text) for text in capabilities.split()]
    monkeypatch.setattr(jax, "devices", lambda platform=None: gpus)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setenv("TRAJENS_CUDA_LIBRARY", __file__)
    found = kernels._loaded.__wrapped__("cuda")
    assert not found.is_loaded
    # What is no library cannot be loaded, but it is not even tried where it would be of no use.
    said = "compute capability 8.0 and up, got Some GPU with 7.5)" if is_refused else "could not be loaded"
    assert said in found.explanation
    assert said in caplog.text


def test_a_library_of_another_version_does_not_keep_jax_from_starting(tmp_path):
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    source, built = tmp_path / "old.cc", tmp_path / "old.so"
    source.write_text('extern "C" void* trajens_cnn_cpu(void*) { return nullptr; }')
    subprocess.run([compiler, "-fPIC", "-shared", str(source), "-o", str(built)], check=True)
    code = "import jax; from trajens.kernels import library; print(library('cpu').explanation, jax.devices())"
    env = {**os.environ, "TRAJENS_CPU_LIBRARY": str(built)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert "could not be loaded" in done.stdout
    assert "version" in done.stdout


def test_an_index_out_of_range_is_an_error_and_no_crash():
    with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match="out of range"):
        native(pairs_of(1, 1.0), jnp.full((1, 4), SIZE, jnp.int32), jnp.ones(1, bool)).block_until_ready()


def test_data_of_another_type_go_to_the_definition():
    floats = tj.models.cnn().problem(DATA[0] / np.float32(255), DATA[1])
    assert not floats.loss.model.kernel.is_for(floats.data)
    pairs, indices = pairs_of(1, 0.3), jnp.arange(8, dtype=jnp.int32)[None]
    losses = losses_of_pairs(floats.loss, floats.data, pairs, indices, jnp.ones(1, bool))
    assert_same_losses(losses, native(pairs, indices, jnp.ones(1, bool)))


@pytest.mark.slow
def test_the_sampler_takes_the_same_path_with_the_kernel_and_with_the_definition(monkeypatch):
    settings = {
        "chains": 1,
        "move": tj.SingleSite(1.0),
        "scan": "checkerboard",
        "acceptance": tj.Penalty(60),
        "records": 2,
        "burn_in": 10,
    }
    target = tj.Target(PROBLEM, tau=4, sigma=0.05, s=20.0, prior=0.3)
    with_kernel = tj.sample(target, 40, **settings)
    by_definition = lambda loss, data, pairs, indices, _: reference_losses(loss, data, pairs, indices)  # noqa: E731
    monkeypatch.setattr("trajens.losses.CrossEntropy.of_pairs", by_definition)
    jax.clear_caches()
    without = tj.sample(target, 40, **settings)
    jax.clear_caches()
    np.testing.assert_allclose(with_kernel.records["loss"], without.records["loss"], rtol=1e-3)
    np.testing.assert_allclose(with_kernel.paths, without.paths, atol=1e-5)
