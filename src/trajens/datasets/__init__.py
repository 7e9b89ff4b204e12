"""Data sets that need no download, and a user's own files."""

from trajens.datasets.arrays import Labelled, load_inputs
from trajens.datasets.loading import classes_of, learn, load
from trajens.datasets.mnist import Mnist, mnist
from trajens.datasets.perceptron import PERCEPTRON_BYTES, PerceptronData, perceptron, perceptron_loss
from trajens.datasets.reading import Feature, Label, Reading

__all__ = [
    "PERCEPTRON_BYTES",
    "Feature",
    "Label",
    "Labelled",
    "Mnist",
    "PerceptronData",
    "Reading",
    "classes_of",
    "learn",
    "load",
    "load_inputs",
    "mnist",
    "perceptron",
    "perceptron_loss",
]
