"""The C++ kernel on processors that this machine is not: compiled for them, and run under an emulator.

Needs Debian's g++-aarch64-linux-gnu and qemu-user-static, or what has their names; skipped without.
"""

import shutil
import subprocess
from pathlib import Path

import jaxlib
import numpy as np
import pytest

from tests.cnn_reference import TOLERANCES, assert_within, reference

ROOT = Path(__file__).parent.parent
KERNEL = ROOT / "src" / "trajens" / "kernels" / "csrc" / "cnn_cpu.cc"
COMPILER, EMULATOR = shutil.which("aarch64-linux-gnu-g++"), shutil.which("qemu-aarch64-static")
OPTIONS = ["-std=c++17", "-O3", "-ffp-contract=fast", "-fno-math-errno", "-Wall", "-Werror", "-Wno-psabi"]
SIZE, M = 20, 37
RNG = np.random.default_rng(7)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(COMPILER is None, reason="no C++ compiler for arm64"),
]


def test_the_library_compiles_for_arm64(tmp_path):
    include = Path(jaxlib.__file__).parent / "include"
    built = tmp_path / "trajens_cpu.so"
    command = [COMPILER, *OPTIONS, "-fPIC", "-shared", f"-isystem{include}", str(KERNEL), "-o", str(built)]
    subprocess.run(command, check=True)
    assert b"trajens_cnn_cpu" in built.read_bytes()


@pytest.mark.skipif(EMULATOR is None, reason="no emulator of arm64")
@pytest.mark.parametrize("size", [0.05, 0.3, 3.0])
def test_losses_on_arm64_are_those_of_the_definition(tmp_path, size):
    program = tmp_path / "cnn_alone"
    source = ROOT / "tests" / "release" / "cnn_alone.cc"
    subprocess.run([COMPILER, *OPTIONS, "-static", str(source), "-o", str(program)], check=True)
    pairs = (size * RNG.standard_normal((1, 2, 1906))).astype(np.float32)
    images = RNG.integers(0, 256, (SIZE, 28, 28), dtype=np.uint8)
    labels = (np.arange(SIZE) % 10).astype(np.uint8)
    indices = RNG.integers(0, SIZE, (1, M)).astype(np.int32)
    given = b"".join(array.tobytes() for array in (pairs, images, labels, indices))
    done = subprocess.run([EMULATOR, str(program), str(SIZE), str(M)], input=given, capture_output=True, check=True)
    got = np.frombuffer(done.stdout, np.float32).reshape(1, 2, M)
    assert_within(got, *reference(pairs, indices, images, labels), TOLERANCES["single"])
