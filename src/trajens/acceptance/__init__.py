"""Acceptance tests: continue, accept or reject, from loss differences on growing minibatches."""

from trajens.acceptance.barker import MinibatchBarker, paper_test
from trajens.acceptance.base import AcceptanceTest, Evidence, Judgement, Past, Reason, Verdict
from trajens.acceptance.full_data import Barker, FullData, Metropolis
from trajens.acceptance.penalty import Penalty

__all__ = [
    "AcceptanceTest",
    "Barker",
    "Evidence",
    "FullData",
    "Judgement",
    "Metropolis",
    "MinibatchBarker",
    "Past",
    "Penalty",
    "Reason",
    "Verdict",
    "paper_test",
]
