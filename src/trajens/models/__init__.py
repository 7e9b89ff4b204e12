"""Models: flat parameters, a random start, and per-example losses as a `Problem`."""

from trajens.models.base import Model
from trajens.models.cnn import Cnn, cnn
from trajens.models.mlp import Mlp, linear, mlp

__all__ = ["Cnn", "Mlp", "Model", "cnn", "linear", "mlp"]
