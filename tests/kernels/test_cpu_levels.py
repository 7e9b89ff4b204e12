"""The C++ kernel on processors that this machine is not: compiled for them, and run under an emulator.

Needs CMake, Debian's g++-aarch64-linux-gnu and qemu-user-static, or what has their names; skipped without.
"""

import functools
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import jaxlib
import numpy as np
import pytest

from tests.cnn_reference import TOLERANCES, assert_within, reference

ROOT = Path(__file__).parents[2]
CSRC = ROOT / "src" / "trajens" / "kernels" / "csrc"
XLA = Path(jaxlib.__file__).parent / "include"
FAMILIES = {"x86_64": ("avx512", "avx2", "sse2"), "aarch64": ("neon",)}
# Processors that an emulator can show, and the levels they can run; none shows AVX-512.
PROCESSORS = {
    "Haswell": ("x86_64", ("avx2", "sse2")),
    "Nehalem": ("x86_64", ("sse2",)),
    "cortex-a57": ("aarch64", ("neon",)),
}
SIZE, M = 20, 37
RNG = np.random.default_rng(7)
IMAGES = RNG.integers(0, 256, (SIZE, 28, 28), dtype=np.uint8)
LABELS = (np.arange(SIZE) % 10).astype(np.uint8)
INDICES = RNG.integers(0, SIZE, (1, M)).astype(np.int32)
PAIRS = {size: (size * RNG.standard_normal((1, 2, 1906))).astype(np.float32) for size in (0.05, 0.3, 3.0)}

pytestmark = pytest.mark.slow


def emulator_of(family):
    for name in (f"qemu-{family}-static", f"qemu-{family}"):
        if found := shutil.which(name):
            return found
    pytest.skip(f"no emulator of {family}")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The library for a family of processors, by the project's own build, and a program around its objects."""

    @functools.cache
    def build(family):
        is_own = family == platform.machine()
        compiler = shutil.which("c++" if is_own else f"{family}-linux-gnu-g++")
        if compiler is None or shutil.which("cmake") is None:
            pytest.skip(f"no CMake or no C++ compiler for {family}")
        folder = tmp_path_factory.mktemp(family)
        options = [f"-DPython_EXECUTABLE={sys.executable}", f"-DCMAKE_CXX_COMPILER={compiler}", "-DTRAJENS_CUDA=OFF"]
        # As a wheel: beside the sources it would take the place of the library in use.
        subprocess.run(
            ["cmake", "-S", ROOT, "-B", folder, "-DSKBUILD_STATE=wheel", *options], check=True, capture_output=True
        )
        subprocess.run(["cmake", "--build", folder], check=True, capture_output=True)
        objects = [str(file) for file in folder.rglob("*.o") if "trajens_" in str(file)]
        assert len(objects) == 1 + len(FAMILIES[family])
        levels = ", ".join(f"&{level}" for level in FAMILIES[family])
        command = [compiler, "-std=c++17", "-static", f"-DTRAJENS_FAMILY={levels}", f"-I{CSRC}", f"-isystem{XLA}"]
        program = folder / "cnn_alone"
        subprocess.run([*command, str(ROOT / "tests/release/cnn_alone.cc"), *objects, "-o", program], check=True)
        return folder, program

    return build


def losses_of(command, level, size):
    given = b"".join(array.tobytes() for array in (PAIRS[size], IMAGES, LABELS, INDICES))
    done = subprocess.run([*command, level, str(SIZE), str(M)], input=given, capture_output=True, check=True)
    return np.frombuffer(done.stdout, np.float32).reshape(1, 2, M)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_library_is_built_for_every_family(built, family):
    folder, _ = built(family)
    assert b"trajens_cnn_cpu" in (folder / "trajens_cpu.so").read_bytes()


@pytest.mark.parametrize("processor", PROCESSORS)
def test_a_processor_is_given_the_levels_that_it_can_run(built, processor):
    family, levels = PROCESSORS[processor]
    _, program = built(family)
    command = [emulator_of(family), "-cpu", processor, str(program)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == list(levels)


@pytest.mark.parametrize("processor", PROCESSORS)
def test_losses_on_another_processor_are_those_of_the_definition(built, processor):
    family, (level, *_) = PROCESSORS[processor]
    _, program = built(family)
    command = [emulator_of(family), "-cpu", processor, str(program)]
    for size, pairs in PAIRS.items():
        assert_within(losses_of(command, level, size), *reference(pairs, INDICES, IMAGES, LABELS), TOLERANCES["single"])


def test_levels_that_fuse_multiply_adds_give_the_same_bits_on_every_processor(built):
    """Losses contain the C library's exp and log, which are the same algorithm in glibc for all of these."""
    alone = {
        name: [emulator_of(family), "-cpu", name, str(built(family)[1])]
        for name, (family, levels) in PROCESSORS.items()
        if levels[0] != "sse2"
    }
    for size in PAIRS:
        found = [losses_of(command, PROCESSORS[name][1][0], size) for name, command in alone.items()]
        np.testing.assert_array_equal(found[0], found[1])
