"""Data sets that need no download, a user's own files, and images made worse."""

from trajens.datasets.arrays import Labelled, load_inputs
from trajens.datasets.corruptions import CORRUPTIONS, SEVERITIES, Corruption, corrupted
from trajens.datasets.loading import classes_of, learn, load
from trajens.datasets.mnist import Mnist, mnist
from trajens.datasets.perceptron import PERCEPTRON_BYTES, PerceptronData, perceptron, perceptron_loss
from trajens.datasets.reading import Feature, Label, Reading

__all__ = [
    "CORRUPTIONS",
    "PERCEPTRON_BYTES",
    "SEVERITIES",
    "Corruption",
    "Feature",
    "Label",
    "Labelled",
    "Mnist",
    "PerceptronData",
    "Reading",
    "classes_of",
    "corrupted",
    "learn",
    "load",
    "load_inputs",
    "mnist",
    "perceptron",
    "perceptron_loss",
]
