"""Colour images from files and folders train a convolutional network, and what cannot be read is said in a sentence."""

import csv
import json

import numpy as np
import pytest

import trajens as tj
from tests.command import call
from trajens.app import cli
from trajens.app.experiment import Experiment
from trajens.app.resolve import resolve
from trajens.datasets import arrays

images = pytest.importorskip("PIL.Image", reason="Pillow is not installed, and no dependency of trajens")

NAMES = ("amber", "blue", "cyan")
RNG = np.random.default_rng(1)


def squares(n=60):
    """A square of the colour that is its class, somewhere."""
    y = np.arange(n) % 3
    x = RNG.integers(0, 80, (n, 10, 11, 3), dtype=np.uint8)
    for pixels, label in zip(x, y, strict=True):
        row, column = RNG.integers(0, 4, 2)
        pixels[row : row + 4, column : column + 4, label] = 230
    return x, y


X, Y = squares()


def write(folder, x=X, y=Y, names=NAMES, suffix=".png"):
    for i, (pixels, label) in enumerate(zip(x, y, strict=True)):
        file = folder / names[label] / f"{i:03d}{suffix}"
        file.parent.mkdir(parents=True, exist_ok=True)
        images.fromarray(pixels).save(file)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = write(tmp_path_factory.mktemp("images") / "training")
    (found / "notes.txt").write_text("no image")
    (found / ".hidden").mkdir()
    return found


def test_a_folder_is_read_as_images_and_the_names_of_its_subfolders(folder):
    reading, data = tj.datasets.learn(folder)
    order = np.argsort(Y, kind="stable")
    np.testing.assert_array_equal(data.x, X[order])
    np.testing.assert_array_equal(data.y, Y[order])
    assert (reading.label.classes, reading.shape, reading.is_bytes) == (NAMES, (10, 11, 3), True)
    assert tj.datasets.Reading.from_json(reading.to_json()) == reading
    np.testing.assert_array_equal(tj.datasets.load(folder).y, data.y)
    np.testing.assert_array_equal(tj.datasets.load_inputs(folder), data.x)


def test_a_file_and_a_folder_of_numbered_classes_are_read_alike(tmp_path):
    np.savez(tmp_path / "images.npz", x=X, y=Y)
    reading, _ = tj.datasets.learn(tmp_path / "images.npz")
    numbered = write(tmp_path / "numbered", names=("0", "1", "2"))
    assert tj.datasets.learn(numbered)[0] == reading
    np.testing.assert_array_equal(reading.labelled(numbered).y, np.sort(Y))


def test_grey_images_have_no_colours_and_may_be_among_coloured_ones(tmp_path):
    grey = write(tmp_path / "grey", X[..., 0], suffix=".JPG")
    reading, data = tj.datasets.learn(grey)
    assert (data.x.shape, reading.shape) == ((60, 10, 11), (10, 11))
    mixed = write(tmp_path / "mixed")
    images.fromarray(X[0, ..., 0]).save(mixed / "amber" / "000.png")
    images.fromarray(X[3]).convert("P").save(mixed / "amber" / "003.png")
    x = tj.datasets.load(mixed).x
    assert x.shape == (60, 10, 11, 3)
    np.testing.assert_array_equal(x[0], X[0, ..., :1].repeat(3, -1))
    with pytest.raises(tj.InputError, match="images must be grey, as the run was trained on, got colours in"):
        reading.labelled(write(tmp_path / "coloured", X[:3], Y[:3]))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda folder: [file.unlink() for file in folder.glob("*/*.png")], "two or more classes, got 0"),
        (lambda folder: [file.unlink() for file in folder.glob("[ab]*/*.png")], "two or more classes, got 1"),
        (
            lambda folder: images.fromarray(X[0, :7]).save(folder / "cyan" / "x.png"),
            "one shape, got 10 x 11 in '.*000.png' and 7 x 11 in '.*x.png'; cut or resize them",
        ),
        (lambda folder: (folder / "blue" / "x.jpeg").write_bytes(b"\x89PNG no"), "x.jpeg' must be a whole image, got"),
        (
            lambda folder: images.fromarray(X[0, ..., 0].astype(np.uint16) * 200).save(folder / "blue" / "x.png"),
            "x.png' must be an image of 8 bits, grey or coloured, got mode I",
        ),
    ],
)
def test_folders_that_cannot_be_read_are_refused_in_a_sentence(spoil, words, tmp_path):
    spoil(write(tmp_path, X[:6], Y[:6]))
    with pytest.raises(tj.InputError, match=words) as caught:
        tj.datasets.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_without_pillow_a_sentence_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(tj.InputError, match=r"pip install 'trajens\[images\]', or save the images as x and y"):
        tj.datasets.load(folder)


def test_other_folders_are_refused_in_a_sentence(folder, tmp_path):
    with pytest.raises(tj.InputError, match="must hold images"):
        tj.datasets.load_inputs(tmp_path)
    with pytest.raises(tj.InputError, match="a folder that exists"):
        arrays.images_in(tmp_path / "nothing")
    with pytest.raises(tj.InputError, match="with a folder of classes, got squared"):
        tj.datasets.learn(folder, loss="squared")
    with pytest.raises(tj.InputError, match="must have 10 subfolders"):
        tj.datasets.learn(folder, num_classes=10)
    reading, _ = tj.datasets.learn(folder)
    with pytest.raises(tj.InputError, match=r"must have the labels amber, blue, cyan, got 'dune' in '.*dune"):
        reading.labelled(write(tmp_path, X[:3], Y[:3], ("amber", "blue", "dune")))


OPTIONS = "--channels 4,3 --tau 2 --s 300 --sigma 0.2 --epochs 200 --chunk 30 --records 2 --chains 1"


@pytest.fixture(scope="module")
def run(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "run"
    with pytest.raises(SystemExit) as exit_:
        cli.app(["train", str(folder), *OPTIONS.split(), "--out", str(out)])
    assert exit_.value.code == 0
    return out


def test_a_run_on_a_folder_knows_its_network_and_its_classes(run, folder, tmp_path, capsys):
    ensemble = tj.Ensemble.load(run)
    assert ensemble.model == tj.models.conv_net((10, 11, 3), (4, 3), outputs=3)
    assert Experiment.load(run).model == ensemble.model
    code, out, _ = call(capsys, "evaluate", str(run), "--data", str(folder), "--json")
    assert code == 0
    order = np.argsort(Y, kind="stable")
    assert json.loads(out)["vote_accuracy"] == ensemble.evaluate(X[order], Y[order])["vote_accuracy"]
    answers = tmp_path / "answers.csv"
    assert call(capsys, "predict", str(run), str(folder / "blue"), "--out", str(answers))[0] == 0
    with answers.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["file"] for row in rows] == [f"{i:03d}.png" for i in np.flatnonzero(Y == 1)]
    assert list(rows[0]) == ["file", "predicted_class", "class_probability", "vote", "vote_agreement"] + [
        f"probability_{name}" for name in ("amber", "blue", "cyan")
    ]
    np.savez(tmp_path / "x.npz", x=X)
    assert call(capsys, "predict", str(run), str(tmp_path / "x.npz"), "--out", str(tmp_path / "b.csv"))[0] == 0
    assert call(capsys, "report", str(run), "--out", str(tmp_path / "page.html"))[0] == 0
    assert "conv of 10 x 11 x 3: channels 4-3 kernel 3-3 pooling 2-2 relu" in (tmp_path / "page.html").read_text()


def network(tmp_path, shape=(10, 11, 3), **options):
    np.savez(tmp_path / "images.npz", x=np.zeros((6, *shape), np.uint8), y=np.arange(6) % 2)
    return Experiment(resolve({"problem": str(tmp_path / "images.npz"), **options})).model


def test_options_mean_a_network(tmp_path):
    made = tj.models.conv_net
    assert network(tmp_path, model="conv") == made((10, 11, 3), (8, 16), 3, 2, (), 2)
    assert network(tmp_path, channels="4,2", kernel="3,2", pooling=1) == made((10, 11, 3), (4, 2), (3, 2), 1, (), 2)
    more = {"hidden": "5", "activation": "tanh", "weights": "binary"}
    assert network(tmp_path, (10, 11), channels=4, **more) == tj.models.binary(made((10, 11), 4, 3, 2, 5, 2, "tanh"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "mlp", "channels": 4}, "channels must be left out with --model mlp; use --model conv"),
        ({"kernel": 3}, "kernel must be left out with --model mlp"),
        ({"channels": 0}, "channels must be a whole number at least 1, got 0"),
        ({"channels": 4, "pooling": 10}, "pool must leave something of the 10 x 11 image"),
        ({"channels": 4, "kernel": 11}, "kernel must be no larger than the 10 x 11 image"),
        ({"channels": 4, "activation": "gelu"}, "activation must be one of"),
        ({"channels": 4, "shape": (330,)}, r"for --model conv, got shape \(330,\); use --model mlp"),
    ],
)
def test_options_that_mean_none_are_refused_in_a_sentence(options, words, tmp_path):
    shape = options.get("shape", (10, 11, 3))
    given = {name: value for name, value in options.items() if name != "shape"}
    with pytest.raises(tj.InputError, match=words):
        network(tmp_path, shape, **given)


def test_an_environment_takes_no_convolutions():
    with pytest.raises(tj.InputError, match="model must be linear or mlp with CartPole-v1, got conv"):
        resolve({"problem": "CartPole-v1", "model": "conv"})
