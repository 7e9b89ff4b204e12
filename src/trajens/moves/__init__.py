"""Moves: how new models are drawn from the untilted path law."""

from trajens.moves.base import Move, Proposal, Proposer, Site
from trajens.moves.centre_of_mass import CentreOfMass
from trajens.moves.mixture import Mixture
from trajens.moves.segment import Segment
from trajens.moves.single_site import SingleSite

__all__ = ["CentreOfMass", "Mixture", "Move", "Proposal", "Proposer", "Segment", "SingleSite", "Site"]
