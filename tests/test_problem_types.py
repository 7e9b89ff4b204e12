"""Arrays of any type and byte order: converted to what they mean in 32 bits, or refused with a sentence."""

import jax
import ml_dtypes
import numpy as np
import pytest

import trajens as tj

VALUES = [[0, 1], [2, 3], [1, 0], [3, 2]]
FLOATS = ["f2", ">f2", "f4", ">f4", "f8", ">f8", np.longdouble, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]
WHOLE = ["i1", ">i2", "i4", ">i4", "i8", ">i8", "u1", ">u2", "u4", ">u4", "u8", ">u8", ml_dtypes.int4]
KEPT = {"bool": "bool", ml_dtypes.int4: "i1", "i1": "i1", ">i2": "i2", "u1": "u1", ">u2": "u2"}
KEPT |= dict.fromkeys(["u4", ">u4", "u8", ">u8"], "u4")
EVERY = [*FLOATS, *WHOLE, "bool"]
NO_NUMBERS = [
    np.array(["a", "b"]),
    np.array([1.0, None]),
    np.array([1j, 2j]),
    np.zeros(2, "V2"),
    np.zeros(2, [("a", "f4")]),
    np.zeros(2, "M8[s]"),
]
TOO_LARGE = [
    (np.array([1.0, 1e300]), "1 NaN or infinite"),
    (np.array([1.0, -1e300], ">f8"), "1 NaN or infinite"),
    (np.array([1.0, 1e300], np.longdouble), "1 NaN or infinite"),
    (np.array([0, 2**31]), "2147483648"),
    (np.array([0, -(2**40)], ">i8"), "-1099511627776"),
    (np.array([0, 2**32], np.uint64), "4294967296"),
]


def loss(theta, batch):
    return (batch * theta).sum(tuple(range(1, batch.ndim)))


def found(data):
    return np.asarray(tj.Problem(loss, data, 1).data)


@pytest.mark.parametrize("dtype", EVERY, ids=str)
def test_data_keep_their_values(dtype):
    given = np.array(VALUES).astype(dtype)
    kept = found(given)
    np.testing.assert_array_equal(kept.astype(float), given.astype(float))
    wanted = (
        "f4"
        if dtype in FLOATS
        else "bool"
        if dtype == "bool"
        else KEPT.get(dtype, "i4" if isinstance(dtype, str) else "i1")
    )
    assert kept.dtype == np.dtype(wanted)
    assert kept.dtype.isnative


@pytest.mark.parametrize("dtype", EVERY, ids=str)
def test_an_ensemble_answers_the_same(dtype):
    model = tj.models.mlp((2, 3, 4), "tanh")
    ensemble = tj.Ensemble(model, [model.init(seed) for seed in range(2)])
    given = np.array(VALUES).astype(dtype)
    plain = given.astype(np.float32) / (255 if dtype == "u1" else 1)  # bytes are images
    np.testing.assert_array_equal(ensemble.predict_proba(given), ensemble.predict_proba(plain))
    labels = np.array([0, 1, 2, 3]).astype(dtype)
    found, expected = ensemble.evaluate(given, labels), ensemble.evaluate(plain, labels.astype(np.int64))
    if dtype == "u1":
        # Bytes become numbers inside the compiled program, which may round otherwise.
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), found, expected)
    else:
        assert found == expected
    line = tj.Ensemble(tj.models.linear(2), np.ones((1, 3)))
    assert line.evaluate(given, labels) == line.evaluate(plain, labels.astype(np.float64))


@pytest.mark.parametrize("dtype", EVERY, ids=str)
def test_paths_and_labels_may_have_any_type(dtype):
    x = np.array(VALUES, np.float32)
    path = np.ones((2, 3)).astype(dtype)
    problem = tj.models.linear(2).problem(x, np.array([0, 1, 1, 0]).astype(dtype), loss="squared")
    np.testing.assert_array_equal(problem.data.y, [0, 1, 1, 0])
    state = tj.Sampler(tj.Target(problem, 2, 0.1, 1.0)).init(path)
    np.testing.assert_array_equal(state.path, np.ones((4, 2, 3)))
    assert state.path.dtype == np.float32
    np.testing.assert_array_equal(tj.Ensemble(tj.models.linear(2), path).path, np.ones((2, 3)))
    if dtype in WHOLE:
        labelled = tj.models.mlp((2, 4)).problem(x, np.array([0, 1, 2, 3]).astype(dtype))
        np.testing.assert_array_equal(labelled.data.y, [0, 1, 2, 3])


@pytest.mark.parametrize("dtype", [*FLOATS[:-2], *WHOLE[:-1]], ids=str)
def test_files_keep_their_values(dtype, tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array(VALUES).astype(dtype), y=np.array([0, 1, 1, 0]).astype(dtype))
    data = tj.datasets.load(tmp_path / "a.npz")
    problem = tj.models.mlp((2, 2)).problem(data.x, data.y)
    np.testing.assert_array_equal(problem.data.x, VALUES)
    np.testing.assert_array_equal(problem.data.y, [0, 1, 1, 0])


def test_types_that_numpy_does_not_store_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.ones((4, 2), ml_dtypes.bfloat16), y=np.zeros(4, int))
    with pytest.raises(tj.InputError, match="must hold numbers, got x of type"):
        tj.datasets.load(tmp_path / "a.npz")


def refusals(given):
    """What is said where such an array is given as data, inputs, labels, initial model or path."""
    line = tj.models.linear(1)
    column = given[:, None]
    ensemble = tj.Ensemble(line, np.ones((1, 2)))
    problem = line.problem(np.ones((2, 1)), np.zeros(2), loss="squared")
    calls = (
        lambda: tj.Problem(loss, column, 1),
        lambda: line.problem(column, np.zeros(2), loss="squared"),
        lambda: ensemble.predict(column),
        lambda: ensemble.predict(column, return_std=True),
        lambda: ensemble.member_outputs(column),
        lambda: ensemble.evaluate(column, np.zeros(2)),
        lambda: tj.Ensemble.from_apply(lambda theta, x: x * theta[0], np.ones((1, 1)), 1).predict(column),
    )
    vectors = (
        lambda: line.problem(np.ones((2, 1)), given, loss="squared"),
        lambda: tj.Sampler(tj.Target(problem, 1, 0.1, 1.0)).init(given),
        lambda: tj.Ensemble(line, given[None]),
        lambda: tj.Ensemble.from_apply(lambda theta, x: x * theta[0], given[None], 1),
    )
    for one in (*calls, *vectors):
        with pytest.raises(tj.InputError) as error:
            one()
        yield str(error.value)


@pytest.mark.parametrize("given", NO_NUMBERS, ids=lambda given: str(given.dtype))
def test_what_is_no_number_is_refused(given):
    for sentence in refusals(given):
        assert "must be an array of numbers, got ndarray of" in sentence
    with pytest.raises(tj.InputError, match="labels must be an array of numbers"):
        tj.Ensemble(tj.models.linear(1), np.ones((1, 2))).evaluate(np.ones((2, 1)), given)


@pytest.mark.parametrize(("given", "shown"), TOO_LARGE)
@pytest.mark.filterwarnings("error")
def test_what_32_bits_cannot_hold_is_refused(given, shown):
    for sentence in refusals(given):
        assert shown in sentence


def test_whole_numbers_of_32_bits_are_kept_to_the_last():
    ends = np.array([-(2**31), 2**31 - 1])
    np.testing.assert_array_equal(found(ends), ends)
    np.testing.assert_array_equal(found(np.array([0, 2**32 - 1], np.uint64)), [0, 2**32 - 1])
