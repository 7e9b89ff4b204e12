"""Moves: how new models are drawn from the untilted path law."""

from trajens.moves.base import Move, MoveContext, Proposal, Proposer, Site
from trajens.moves.centre_of_mass import CentreOfMass
from trajens.moves.layer import LayerMove
from trajens.moves.mixture import Mixture
from trajens.moves.segment import Segment
from trajens.moves.single_site import SingleSite

__all__ = [
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
]
