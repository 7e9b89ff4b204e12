"""Data sets that need no download."""

from trajens.datasets.perceptron import PerceptronData, perceptron, perceptron_loss

__all__ = ["PerceptronData", "perceptron", "perceptron_loss"]
