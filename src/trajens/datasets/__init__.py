"""Data sets that need no download."""

from trajens.datasets.perceptron import PerceptronData, perceptron

__all__ = ["PerceptronData", "perceptron"]
