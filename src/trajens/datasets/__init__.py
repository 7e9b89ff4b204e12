"""Data sets that need no download, and a user's own files."""

from trajens.datasets.arrays import Labelled, load, load_inputs
from trajens.datasets.mnist import Mnist, mnist
from trajens.datasets.perceptron import PerceptronData, perceptron, perceptron_loss

__all__ = ["Labelled", "Mnist", "PerceptronData", "load", "load_inputs", "mnist", "perceptron", "perceptron_loss"]
