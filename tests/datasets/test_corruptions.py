"""Images made worse: each way against its definition, and all of them the same however they are asked for."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import kstest

import trajens as tj
from trajens.datasets import CORRUPTIONS, SEVERITIES, corrupted
from trajens.errors import InputError

EVERY = pytest.mark.parametrize("name", CORRUPTIONS)
AT_EVERY = pytest.mark.parametrize("severity", range(1, SEVERITIES + 1))


@pytest.fixture(scope="module")
def digits():
    return tj.datasets.mnist().test_x[:300]


def strength(name, severity):
    return CORRUPTIONS[name].strengths[severity - 1]


def never(count):
    raise AssertionError("nothing random was to be asked for")


def always(n, *values):
    """Random numbers that are given."""
    return lambda count: np.tile(values, (n, 1))[:, :count]


@EVERY
def test_severity_0_is_the_images_themselves(name, digits):
    found = corrupted(digits, name, 0)
    np.testing.assert_array_equal(found, digits)
    assert not np.shares_memory(found, digits)


@EVERY
def test_distance_grows_with_severity(name, digits):
    x = digits / 255.0
    distances = [((corrupted(x, name, severity) - x) ** 2).mean() for severity in range(SEVERITIES + 1)]
    assert distances[0] == 0
    assert (np.diff(distances) > 0).all(), distances
    assert (np.diff(CORRUPTIONS[name].strengths) > 0).all()
    assert len(CORRUPTIONS[name].strengths) == SEVERITIES


@EVERY
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64, ">f4"])
@pytest.mark.parametrize("shape", [(5, 11, 9), (5, 9, 11, 3), (1, 1, 1), (0, 8, 8)])
def test_shape_type_and_range_stay(name, dtype, shape):
    x = np.random.default_rng(0).random(shape)
    x = (255 * x).astype(dtype) if dtype == np.uint8 else x.astype(dtype)
    given = x.copy()
    for severity in (1, SEVERITIES):
        found = corrupted(x, name, severity)
        assert found.shape == shape
        assert found.dtype == x.dtype
        assert ((found >= 0) & (found <= (255 if dtype == np.uint8 else 1))).all()
    np.testing.assert_array_equal(x, given)


@EVERY
def test_bytes_are_floats_rounded(name, digits):
    from_floats = corrupted(digits / 255.0, name, 3)
    np.testing.assert_array_equal(corrupted(digits, name, 3), np.rint(255 * from_floats))


@EVERY
def test_parts_are_the_whole(name, digits, monkeypatch):
    whole = corrupted(digits, name, 4, seed=7)
    parts = [corrupted(digits[a:b], name, 4, seed=7, first=a) for a, b in ((0, 1), (1, 120), (120, 300))]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    monkeypatch.setattr("trajens.datasets.corruptions._PART", 17 * 28 * 28)
    np.testing.assert_array_equal(corrupted(digits, name, 4, seed=7), whole)


@pytest.mark.parametrize("name", ["noise", "shift", "rotation", "occlusion"])
def test_seeds_and_images_differ(name, digits):
    same = np.repeat(digits[:1], 40, 0)
    found = corrupted(same, name, 5)
    np.testing.assert_array_equal(found, corrupted(same, name, 5, seed=0))
    assert (found != corrupted(same, name, 5, seed=1)).any()
    assert len(np.unique(found.reshape(40, -1), axis=0)) >= (2 if name == "rotation" else 4)


@AT_EVERY
def test_noise_is_normal_where_nothing_is_cut_off(severity):
    """Of pixels 1/2 the noise is seen up to 1/2: there its distribution is that of a normal one, the rest is 0 or 1."""
    std = strength("noise", severity)
    found = corrupted(np.full((40, 28, 28), 0.5), "noise", severity).ravel()
    z, limit = (found - 0.5) / std, 0.5 / std
    is_inside = np.abs(z) < limit - 1e-9
    assert kstest(z[is_inside], lambda v: (ndtr(v) - ndtr(-limit)) / (1 - 2 * ndtr(-limit))).pvalue > 1e-9
    count, share = len(z), 2 * ndtr(-limit)
    assert abs((~is_inside).sum() - count * share) <= 6 * np.sqrt(count * share) + 1


def test_noise_has_the_stated_variance_and_is_independent_between_pixels():
    std = strength("noise", 1)
    added = corrupted(np.full((100, 28, 28), 0.5), "noise", 1) - 0.5
    count = added.size
    assert abs(added.mean()) < 6 * std / np.sqrt(count)
    assert abs((added**2).mean() / std**2 - 1) < 6 * np.sqrt(2 / count)
    for other in (np.roll(added, 1, 2), np.roll(added, 1, 1), np.roll(added, 1, 0)):
        assert abs((added * other).mean() / std**2) < 6 / np.sqrt(count)


def test_noise_is_the_quantile_of_its_uniform_number():
    images = np.full((2, 1, 2, 1), 0.4)
    found = CORRUPTIONS["noise"].apply(images, 0.3, always(2, 0.25, 0.9))
    np.testing.assert_allclose(found[:, 0, :, 0], 0.4 + 0.3 * np.tile(ndtri([0.25, 0.9]), (2, 1)), rtol=1e-14)


@AT_EVERY
def test_blur_is_the_convolution_with_a_gaussian_and_keeps_the_mean(severity, digits):
    std = strength("blur", severity)
    points = np.arange(-np.round(4 * std), np.round(4 * std) + 1)
    weights = np.exp(-(points**2) / (2 * std**2))
    weights /= weights.sum()
    point = np.zeros((1, 28, 28))
    point[0, 14, 13] = 1.0
    expected = np.zeros(28)
    expected[14 + points.astype(int)] = weights
    found = corrupted(point, "blur", severity)[0]
    np.testing.assert_allclose(found, np.outer(expected, np.roll(expected, -1)), atol=1e-14)
    x = digits / 255.0
    np.testing.assert_allclose(corrupted(x, "blur", severity).mean((1, 2)), x.mean((1, 2)), rtol=1e-12)


def test_blur_does_not_mix_images_or_channels():
    x = np.zeros((3, 28, 28, 3))
    x[1, 10:20, 10:20, 2] = 1.0
    found = corrupted(x, "blur", 5)
    assert found[1, :, :, 2].sum() == pytest.approx(100)
    found[1, :, :, 2] = 0
    assert not found.any()


@AT_EVERY
def test_shift_is_a_translation_with_zeros(severity, digits):
    d = int(strength("shift", severity))
    x = digits.astype(float) / 255
    found = corrupted(x, "shift", severity)
    padded = np.pad(x, ((0, 0), (d, d), (d, d)))
    ways = {"up": (2 * d, d), "down": (0, d), "left": (d, 2 * d), "right": (d, 0)}
    moved = {way: padded[:, a : a + 28, b : b + 28] for way, (a, b) in ways.items()}
    is_way = np.stack([(found == there).all((1, 2)) for there in moved.values()])
    assert (is_way.sum(0) == 1).all()
    # Four ways of 300 images, 75 each.
    assert (np.abs(is_way.sum(1) - 75) < 6 * np.sqrt(300 * 3 / 16)).all()


@pytest.mark.parametrize(("side", "severity", "pixels"), [(56, 3, 6), (32, 1, 2), (8, 1, 1), (14, 5, 3)])
def test_lengths_are_parts_of_the_shorter_side_rounded_up(side, severity, pixels):
    x = np.full((4, side, side + 10), 1.0)
    # A white image that is moved has a black margin.
    lost = (corrupted(x, "shift", severity) == 0).sum((1, 2))
    assert set(lost) <= {pixels * side, pixels * (side + 10)}


@pytest.mark.parametrize(("uniform", "turns"), [(0.0, 1), (0.49, 1), (0.5, -1), (0.99, -1)])
def test_rotation_by_a_right_angle_is_exact(uniform, turns, digits):
    x = digits[:20, ..., None] / 255.0
    found = CORRUPTIONS["rotation"].apply(x, 90.0, always(20, uniform))
    np.testing.assert_allclose(found, np.rot90(x, turns, axes=(1, 2)), atol=1e-12)


@AT_EVERY
def test_rotation_has_the_stated_angle_to_either_side(severity):
    """The principal axis of a bar, from its second moments."""
    x = np.zeros((60, 57, 57))
    x[:, 27:30, 15:42] = 1.0
    found = corrupted(x, "rotation", severity)
    place = np.arange(57) - 28
    rows, columns = np.meshgrid(place, place, indexing="ij")
    rr, cc, rc = ((found * m).sum((1, 2)) for m in (rows**2, columns**2, rows * columns))
    angle = np.degrees(0.5 * np.arctan2(-2 * rc, cc - rr))
    np.testing.assert_allclose(np.abs(angle), strength("rotation", severity), atol=0.3)
    assert abs((angle > 0).sum() - 30) < 6 * np.sqrt(15)


@AT_EVERY
def test_what_comes_in_by_rotation_is_0(severity):
    found = corrupted(np.ones((4, 28, 28)), "rotation", severity)
    assert not found[:, [0, 0, -1, -1], [0, -1, 0, -1]].any()
    np.testing.assert_allclose(found[:, 10:18, 10:18], 1.0, rtol=1e-12)


@AT_EVERY
def test_contrast_is_its_closed_form(severity):
    x = np.random.default_rng(1).random((7, 10, 11, 3))
    left = 1 - strength("contrast", severity)
    mean = x.reshape(7, -1).mean(1)[:, None, None, None]
    found = corrupted(x, "contrast", severity)
    np.testing.assert_allclose(found, left * x + (1 - left) * mean, rtol=1e-12)
    np.testing.assert_allclose(found.std((1, 2, 3)), left * x.std((1, 2, 3)), rtol=1e-12)
    CORRUPTIONS["contrast"].apply(x, left, never)
    CORRUPTIONS["blur"].apply(x, left, never)


@AT_EVERY
@pytest.mark.parametrize("value", [0, 255])
def test_occlusion_is_one_grey_square_of_the_stated_area(severity, value):
    side = int(strength("occlusion", severity))
    x = np.full((400, 28, 30, 2), value, np.uint8)
    found = corrupted(x, "occlusion", severity)
    is_grey = found == 128
    assert (is_grey.sum((1, 2, 3)) == 2 * side**2).all()
    np.testing.assert_array_equal(found[~is_grey], x[~is_grey])
    is_row, is_column = is_grey.any((2, 3)), is_grey.any((1, 3))
    assert (is_row.sum(1) == side).all()
    assert (is_column.sum(1) == side).all()
    for corner, places in ((is_row.argmax(1), 28 - side + 1), (is_column.argmax(1), 30 - side + 1)):
        expected = 400 / places
        assert (np.abs(np.bincount(corner, minlength=places) - expected) < 6 * np.sqrt(expected)).all()


@pytest.mark.parametrize(
    ("uniform", "rows", "columns"),
    [((0.0, 0.0), (0, 8), (0, 8)), ((1 - 2**-53, 0.0), (20, 28), (0, 8)), ((0.0, 1 - 2**-53), (0, 8), (22, 30))],
)
def test_the_square_can_be_in_every_corner_and_never_outside(uniform, rows, columns):
    found = CORRUPTIONS["occlusion"].apply(np.zeros((1, 28, 30, 1)), 8.0, always(1, *uniform))
    assert (found[0, slice(*rows), slice(*columns)] == 0.5).all()
    assert (found == 0.5).sum() == 64


def test_images_move_the_same_way_at_every_severity():
    x = np.zeros((50, 57, 57))
    x[:, 28, 28] = 1.0
    places = np.array([corrupted(x, "shift", severity).reshape(50, -1).argmax(1) for severity in (1, 5)])
    (r1, c1), (r5, c5) = (np.array(np.unravel_index(place, (57, 57))) - 28 for place in places)
    np.testing.assert_array_equal(np.sign(r1), np.sign(r5))
    np.testing.assert_array_equal(np.sign(c1), np.sign(c5))


@pytest.mark.parametrize(
    ("images", "options", "words"),
    [
        (np.zeros((28, 28)), {}, r"images must have shape \(n, h, w\).*got \(28, 28\)"),
        (np.zeros((2, 3, 4, 5, 6)), {}, r"images must have shape \(n, h, w\)"),
        (np.zeros((2, 0, 4)), {}, r"images must have shape \(n, h, w\)"),
        (np.full((2, 4, 4), np.nan), {}, "images must be finite, got 32 NaN or infinite"),
        (np.full((2, 4, 4), np.inf), {}, "images must be finite"),
        (np.full((2, 4, 4), 1.5), {}, r"images of floats must be in 0\.\.1, got 1.5 to 1.5"),
        (np.full((2, 4, 4), -1e-3), {}, r"images of floats must be in 0\.\.1"),
        (np.zeros((2, 4, 4), np.int64), {}, "images must be bytes .* got int64"),
        (np.zeros((2, 4, 4), bool), {}, "images must be bytes .* got bool"),
        (np.zeros((2, 4, 4), complex), {}, "images must be an array of numbers"),
        ("digits", {}, "images must be an array of numbers"),
        (np.zeros((2, 4, 4)), {"name": "snow"}, "name must be one of 'noise', 'blur', .* got 'snow'"),
        (np.zeros((2, 4, 4)), {"name": ["noise"]}, "name must be one of"),
        (np.zeros((2, 4, 4)), {"severity": 6}, r"severity must be a whole number in 0\.\.5, got 6"),
        (np.zeros((2, 4, 4)), {"severity": -1}, r"severity must be a whole number in 0\.\.5"),
        (np.zeros((2, 4, 4)), {"severity": 2.5}, r"severity must be a whole number in 0\.\.5"),
        (np.zeros((2, 4, 4)), {"severity": True}, r"severity must be a whole number in 0\.\.5"),
        (np.zeros((2, 4, 4)), {"seed": -1}, "seed must be a whole number"),
        (np.zeros((2, 4, 4)), {"seed": 2**32}, "seed must be a whole number"),
        (np.zeros((2, 4, 4)), {"first": -5}, "first must be a whole number at least 0"),
    ],
)
def test_hostile_inputs_are_refused_in_a_sentence(images, options, words):
    with pytest.raises(InputError, match=words):
        corrupted(images, **{"name": "noise", "severity": 1, **options})


def test_the_table_cannot_be_changed_by_chance():
    with pytest.raises(TypeError):
        CORRUPTIONS["noise"] = None
