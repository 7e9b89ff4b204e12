"""Scores of examples from their losses, learnt again at some records of burn-in; see `trajens.copies`.

They must not depend on the decisions of the same time, so they are made of all examples at once, from models all over
the paths, between two decisions; and they are frozen when averages begin.
"""

from __future__ import annotations

from trajens.copies import counts_by, scores_by_errors, scores_by_losses
from trajens.losses import ZeroOne
from trajens.sampling.devices import Sampler
from trajens.sampling.program import Control
from trajens.sampling.sampler import State

_SHARE, _MOST = 0.02, 16
"""Of the data that scores may take, and models they are averaged over at most."""


def reweight(sampler: Sampler, state: State, control: Control, used: float) -> tuple[Control, int]:
    """Learn copies of examples from their losses now; return the evaluations per chain that it took, 0 if too many.

    `used` is what was evaluated per chain so far. Each look at all examples takes no more than a fiftieth of it.
    """
    chains, size = sampler.settings.chains, sampler.program.examples.most
    models = 2 * min(int(_SHARE * used * chains / (2 * size)), _MOST // 2)
    if models == 0:
        return control, 0
    losses = sampler.losses_of_examples(state, models)
    is_counting = isinstance(sampler.target.problem.loss, ZeroOne)
    scores = scores_by_errors(losses, models) if is_counting else scores_by_losses(losses)
    return control._replace(copies=counts_by(scores)), -(-models * size // chains)
