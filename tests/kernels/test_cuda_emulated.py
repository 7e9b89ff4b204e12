"""The source of the CUDA kernel, run on the host: finds wrong indices, divergence and missing barriers without a GPU.

Not all missing barriers: every instruction of a warp is one here, and on a GPU it need not be. That is for racecheck,
and what a GPU makes of the source, and how it is launched there, for ``test_cuda.py``; ``make gpu`` runs both.
"""

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cnn_reference import TOLERANCES, assert_rounds_as, assert_within, half, reference

TESTS = Path(__file__).parents[1]
COMPILER = shutil.which("c++")
pytestmark = [
    pytest.mark.skipif(COMPILER is None, reason="no C++ compiler"),
    pytest.mark.skipif(sys.platform != "linux", reason="the emulator needs Linux for its fibers"),
]

SIZE = 40
RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (SIZE, 28, 28), dtype=np.uint8)
LABELS = (np.arange(SIZE) % 10).astype(np.uint8)

both_precisions = pytest.mark.parametrize("precision", TOLERANCES)


@pytest.fixture(scope="module")
def emulator(tmp_path_factory):
    """A file in quotes is looked for beside the one that includes it: all in one folder, with our own mma.cuh."""
    folder = tmp_path_factory.mktemp("emulator")
    for source in (TESTS.parent / "src" / "trajens" / "kernels" / "csrc", TESTS / "cuda_emulator"):
        shutil.copytree(source, folder, dirs_exist_ok=True)
    options = ["-std=c++17", "-O2", "-fPIC", "-shared", "-o", "emulator.so"]
    subprocess.run([COMPILER, *options, "emulator.cc"], cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "emulator.so"))
    library.losses_of_pairs.restype = ctypes.c_char_p
    return library


def kernel(emulator, precision, pairs, indices, *, is_active=None, labels=LABELS, images_per_warp=1, seed=0):
    lanes, m = indices.shape
    losses = np.full((lanes, 2, m), -1, np.float32)
    is_active = np.ones(lanes, bool) if is_active is None else is_active
    arrays = [pairs, IMAGES, labels, indices.astype(np.int32), is_active, losses]
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]
    terms = {"single": 2, "half": 1}[precision]
    error = emulator.losses_of_pairs(
        terms, *pointers, *(ctypes.c_int64(n) for n in (lanes, m, SIZE)), images_per_warp, ctypes.c_uint(seed)
    )
    assert error is None, error.decode()
    return losses


def case(lanes, m, size):
    return (size * RNG.standard_normal((lanes, 2, 1906))).astype(np.float32), RNG.integers(0, SIZE, (lanes, m))


# One image, warps without one, blocks that are not full, and as many images as a warp takes.
@pytest.mark.parametrize(
    ("lanes", "m", "images_per_warp", "size"), [(1, 1, 1, 0.3), (3, 7, 1, 3.0), (1, 50, 12, 1.0), (3, 13, 2, 0.05)]
)
@both_precisions
def test_losses_are_those_of_the_definition(emulator, precision, lanes, m, images_per_warp, size):
    pairs, indices = case(lanes, m, size)
    is_active = np.arange(lanes) != 1
    got = kernel(emulator, precision, pairs, indices, is_active=is_active, images_per_warp=images_per_warp)
    assert (got[~is_active] == 0).all()
    expected, scales = reference(pairs, indices, IMAGES, LABELS)
    assert_within(got[is_active], expected[is_active], scales[is_active], TOLERANCES[precision])


def test_half_precision_rounds_weights_and_hidden_activations_and_nothing_else(emulator):
    pairs, indices = case(1, 20, 1.0)
    got = kernel(emulator, "half", pairs, indices, images_per_warp=5)
    assert_rounds_as(got, *reference(pairs, indices, IMAGES, LABELS, half))


@both_precisions
def test_losses_do_not_depend_on_the_order_of_threads_nor_on_the_size_of_blocks(emulator, precision):
    pairs, indices = case(1, 11, 0.5)
    first = kernel(emulator, precision, pairs, indices)
    for seed, images_per_warp in ((1, 1), (2, 3), (3, 12)):
        again = kernel(emulator, precision, pairs, indices, images_per_warp=images_per_warp, seed=seed)
        np.testing.assert_array_equal(again, first)


@both_precisions
def test_an_index_or_a_label_out_of_range_gives_nan_and_leaves_the_others_alone(emulator, precision):
    pairs, _ = case(1, 1, 0.5)
    indices, labels = np.arange(9)[None], LABELS.copy()
    right = kernel(emulator, precision, pairs, indices)
    wrong = indices.copy()
    wrong[0, 1:4] = [-1, SIZE, 2**31 - 1]
    labels[6] = 10
    got = kernel(emulator, precision, pairs, wrong, labels=labels)
    is_wrong = np.isin(np.arange(9), [1, 2, 3, 6])
    assert np.isnan(got[:, :, is_wrong]).all()
    np.testing.assert_array_equal(got[:, :, ~is_wrong], right[:, :, ~is_wrong])
