"""Models: flat parameters, a random start, and per-example losses as a `Problem`."""

from trajens.models.base import Model
from trajens.models.cnn import Cnn, cnn
from trajens.models.mlp import ACTIVATIONS, Mlp, linear, mlp

__all__ = ["ACTIVATIONS", "Cnn", "Mlp", "Model", "cnn", "linear", "mlp"]
