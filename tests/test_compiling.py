"""How many programs a first run compiles: each is waited for, on a GPU for a tenth of a second or more."""

import re
import subprocess
import sys
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np

import trajens as tj
from trajens.compiling import Compiling, elementwise
from trajens.randomness import Key, Purpose, fold_in, key_of, words
from trajens.sampling import sampler as devices

FIRST = """
import sys
import jax
import trajens as tj
jax.config.update("jax_log_compiles", True)
problem = tj.datasets.perceptron(size=1200).problem()
if sys.argv[1] == "sample":
    tj.sample(tj.Target(problem, tau=2, sigma=0.1, s=20.0), 40, chains=2, records=4).summary()
    # It takes a quarter of a second to load.
    assert not any(name.startswith("scipy") for name in sys.modules)
else:
    run = tj.train(problem, tau=2, budget=1e7, records=8, progress=False)
    assert (run.records["data_audited"] > 0).any()
"""
COMPILED = re.compile(r"Finished XLA compilation of jit\((\w+)\)")


def compiled(what):
    """Programs that a process compiles, by name."""
    done = subprocess.run([sys.executable, "-c", FIRST, what], capture_output=True, text=True, check=True)
    return Counter(COMPILED.findall(done.stderr))


def test_a_first_sample_compiles_five_programs_and_does_without_scipy():
    assert compiled("sample") == Counter(["_random_walk", "losses_of_pairs", "init", "_advance", "_measure"])


def test_a_first_training_compiles_thirteen_programs_and_those_of_the_sampler_once():
    found = compiled("train")
    assert {name: found[name] for name in ("_advance", "_measure", "_look_at", "_generations")} == dict.fromkeys(
        ("_advance", "_measure", "_look_at", "_generations"), 1
    )
    # Losses of the first paths, and of those that the start is chosen by.
    assert found["losses_of_pairs"] == 2
    assert sum(found.values()) == 13


def test_looks_and_measurements_of_all_sizes_share_a_program():
    problem = tj.datasets.perceptron(size=3000).problem()
    sampler = tj.Sampler(tj.Target(problem, 4, 0.1, 20.0), tj.Settings(chains=2, acceptance=tj.Penalty(16)))
    state = sampler.init()
    sampler.look_at(state, 0, 20, 1024)
    sampler.measure(state, 700)
    before = devices._look_at._cache_size(), devices._measure._cache_size()
    for proposals, examples in ((512, 1024), (40, 2000), (33, 513), (17, 3000)):
        seen = sampler.look_at(state, 3, proposals, examples)
        assert seen.differences.shape == (2, proposals, examples)
        assert (seen.differences != 0).all()
    for examples in (256, 1000, 2999):
        assert np.isfinite(sampler.measure(state, examples).loss).all()
    assert (devices._look_at._cache_size(), devices._measure._cache_size()) == before


def test_what_was_compiled_ahead_is_not_compiled_again():
    twice = jax.jit(lambda x: 2 * x + 41)
    seen = []

    def listen(name, *_, **__):
        seen.append(name == "/jax/core/compile/backend_compile_duration")

    jax.monitoring.register_event_duration_secs_listener(listen)
    compiling = Compiling()
    for _ in range(2):
        compiling.begin("twice", twice, np.ones(3))
    compiling.finish("twice")
    compiling.finish("what was never begun")
    assert sum(seen) == 1
    assert np.asarray(twice(np.full(3, 2.0))).tolist() == [45.0] * 3
    jax.monitoring.unregister_event_duration_listener(listen)
    assert sum(seen) == 1


def test_a_step_of_its_own_is_mapped_as_the_function_it_stands_for():
    step = elementwise("test", lambda a, b, shift: [a * 10 + b + shift, a - b])
    a, b = np.arange(6, dtype=np.int32).reshape(2, 3), np.arange(12, dtype=np.int32).reshape(4, 3)

    def both(a, b):
        return step(a[:, None], b, shift=7, results=2)

    expected = a[:, None, :, None] * 10 + b[None, :, None, :] + 7, a[:, None, :, None] - b[None, :, None, :]
    for axes in ((0, None), (None, 0)):
        other = (None, 0) if axes == (0, None) else (0, None)
        outer = jax.vmap(jax.vmap(both, other), axes)(a, b)
        for found, right in zip(outer, expected, strict=True):
            np.testing.assert_array_equal(found, right if axes == (0, None) else np.swapaxes(right, 0, 1))
    last = jax.vmap(both, (1, 1))(a, b)
    np.testing.assert_array_equal(last[0], (a.T[:, :, None] * 10 + b.T[:, None, :] + 7))


def test_numbers_on_the_host_are_those_of_devices():
    key = key_of(np.array([0, 1, 2**32 - 1], np.uint32))
    there = key_of(jnp.array([0, 1, 2**32 - 1], jnp.uint32))
    here = fold_in(key, np.array([5, 2**31 - 1, 0]))
    assert isinstance(here.first, np.ndarray)
    np.testing.assert_array_equal(here, fold_in(there, jnp.array([5, 2**31 - 1, 0])))
    for count in (1, 2, 7):
        drawn = words(here, Purpose.PROJECT, count)
        assert isinstance(drawn, np.ndarray)
        assert drawn.shape == (3, count)
        np.testing.assert_array_equal(drawn, words(Key(*map(jnp.asarray, here)), Purpose.PROJECT, count))
