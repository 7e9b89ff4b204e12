"""Escapes from a low loss to that of guessing, and returns, at fixed s and with a flat distribution of the first model.

Where hidden units are dead, or logits do not depend on the image for another reason, the loss is that of guessing
however large the weights. There is room without end, and a run that gets there diffuses outwards for ever, its RMS
weight growing as epochs^1/2. In between, some runs of a group have escaped and others have not yet, which looks like
two phases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

import trajens as tj
from trajens.records import Records
from trajens_paper import digits
from trajens_paper.claims import Claim, claim

_LEARNED, _GUESSING = 2.0, 2.25
"""Losses below and above which a run has learned or guesses; that of guessing one digit of ten is ln 10 = 2.30."""
_WINDOWS = 10
_TAUS = (1, 2, 4, 8, 16, 32)


class Escapes(NamedTuple):
    """Of `runs`: those that learned, that went back to guessing after that, and that learned again after that.

    `grown` are the factors by which the RMS weight of the escaped ones grew in the second half of their epochs; free
    diffusion has 2^1/2.
    """

    runs: int
    learned: int
    escaped: int
    returned: int
    grown: np.ndarray


def escapes(records: Records) -> Escapes:
    """What became of runs, by the median of their loss in ten windows."""
    loss = records["loss"]
    windows = np.array_split(loss, min(_WINDOWS, loss.shape[1]), axis=1)
    typical = np.array([np.median(window, axis=1) for window in windows]).T
    is_low, is_high = typical < _LEARNED, typical > _GUESSING
    has_learned = np.maximum.accumulate(is_low, axis=1)
    has_escaped = np.maximum.accumulate(has_learned & is_high, axis=1)
    has_returned = (has_escaped & is_low).any(1)
    weights, epoch = records["weight_rms"], records["epoch"][0]
    grown = weights[:, -1] / weights[:, np.searchsorted(epoch, epoch[-1] / 2)]
    gone = has_escaped[:, -1] & ~has_returned
    learned, escaped, returned = (int(which.sum()) for which in (has_learned[:, -1], has_escaped[:, -1], has_returned))
    return Escapes(len(loss), learned, escaped, returned, grown[gone])


def papers_runs() -> Iterator[Escapes]:
    """Escapes in the runs of figure mnist at the paper's scale, if paper/results/mnist lies in the current folder."""
    for tau in _TAUS:
        folder = digits.found_results(f"grid-{tau}")
        if folder is not None:
            yield escapes(tj.StoredRun(folder).records)


def still_growing(found: Iterable[Escapes]) -> Iterator[Claim]:
    """The claim that what runs escape to is no phase: weights grow on there. None where too few have escaped."""
    each = list(found)
    grown = np.concatenate([e.grown for e in each]) if each else np.zeros(0)
    if len(grown) < 2:
        return
    runs, learned, escaped, returned = (sum(e[k] for e in each) for k in range(4))
    text = (
        f"flat, the paper's runs: of {runs}, {learned} learned, {escaped} of these went back to guessing and "
        f"{returned} came back; weights of the escaped still grow (factor in the second half of the epochs; 1.41 for "
        "free diffusion)"
    )
    number = grown.mean(), grown.std(ddof=1) / np.sqrt(len(grown))
    yield claim("escaped weights grow", text, *number, ">", 1.0, len(grown) - 1)
