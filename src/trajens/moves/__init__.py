"""Moves: how new models are drawn from the untilted path distribution."""

from trajens.moves.base import Move, MoveContext, Proposal, Proposer, Site
from trajens.moves.centre_of_mass import CentreOfMass
from trajens.moves.layer import LayerMove, by_layer
from trajens.moves.mixture import BalancedMixture, Mixture
from trajens.moves.segment import Segment
from trajens.moves.single_site import SingleSite

__all__ = [
    "BalancedMixture",
    "CentreOfMass",
    "LayerMove",
    "Mixture",
    "Move",
    "MoveContext",
    "Proposal",
    "Proposer",
    "Segment",
    "SingleSite",
    "Site",
    "by_layer",
]
