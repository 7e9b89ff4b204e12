"""A network of binary weights, step activations and a 0-1 loss is sampled with the law that is found by counting.

One hidden unit and two classes: what a model answers depends on the signs of four weights, on the interval between
thresholds that the hidden bias is in, and on that of the difference of the last two. All of it can be gone through.
"""

import itertools

import numpy as np
import pytest
from scipy import stats

import trajens as tj
from tests.monte_carlo import Z, assert_agrees

SIZE, S, PRIOR, CHAINS = 120, 8.0, 0.8, 384
RNG = np.random.default_rng(5)
X = RNG.standard_normal((SIZE, 2)).astype(np.float32)
Y = (X @ [1.0, 0.6] + 0.4 * RNG.standard_t(4, SIZE) > 0.2).astype(np.int64)
SIGNS = np.array(list(itertools.product([-1.0, 1.0], repeat=4)))
MODEL = tj.models.binary(tj.models.mlp((2, 1, 2), "step"))
WEIGHTS = [0, 1, 3, 4]
"""Where weights stand among the parameters; the others are biases."""


def counted():
    """The exact probabilities (16,) of the signs, and the mean loss."""
    weight, losses = np.zeros(len(SIGNS)), np.zeros(len(SIGNS))
    for number, (w_1, w_2, v_0, v_1) in enumerate(SIGNS):
        thresholds = -(X.astype(np.float64) @ [w_1, w_2]) / np.sqrt(2)
        in_order = np.sort(thresholds)
        borders = np.concatenate([[-np.inf], in_order, [np.inf]])
        of_bias = np.diff(stats.norm.cdf(borders, scale=PRIOR))
        is_on = np.arange(SIZE + 1)[:, None] > np.argsort(np.argsort(thresholds))
        # The second class is chosen where the difference of its bias, and of its weight if the unit is on, is above 0.
        turns = np.unique([0.0, v_0 - v_1])
        middles = np.array([turns[0] - 1, *(turns[:-1] + turns[1:]) / 2, turns[-1] + 1])
        of_difference = np.diff(stats.norm.cdf(np.concatenate([[-np.inf], turns, [np.inf]]), scale=np.sqrt(2) * PRIOR))
        for middle, share in zip(middles, of_difference, strict=True):
            answer = np.where(is_on, middle + v_1 - v_0 > 0, middle > 0)
            loss = (answer != Y).mean(1)
            here = share * of_bias * np.exp(-S * loss)
            weight[number] += here.sum()
            losses[number] += here @ loss
    return weight / weight.sum(), losses.sum() / weight.sum()


@pytest.mark.slow
@pytest.mark.parametrize("scores", [None, "losses"])
def test_signs_have_the_law_that_is_counted(scores):
    problem = MODEL.problem(X, Y, "0-1")
    run = tj.sample(
        tj.Target(problem, tau=1, sigma=1.0, s=S, prior=PRIOR),
        900,
        chains=CHAINS,
        burn_in=300,
        records=45,
        keep_paths=True,
        move=tj.SingleSite(refresh=0.8),
        acceptance=tj.Penalty(16),
        scores=scores,
    )
    found = run.history[:, run.records["epoch"][0] > 300, 0]
    number = ((found[..., WEIGHTS] >= 0) @ [8, 4, 2, 1]).astype(int)
    frequencies = np.stack([(number == state).mean(1) for state in range(16)], 1)
    probabilities, loss = counted()
    # Neither one state nor all alike.
    assert 0.12 < probabilities.max() < 0.9
    often = probabilities > 0.002
    assert (frequencies.std(0) / np.sqrt(CHAINS))[often].max() < 0.008
    assert_agrees(frequencies[:, often], probabilities[often], "signs")
    summary = run.summary()
    assert summary["loss_stderr"] < 0.02 * loss
    assert abs(summary["loss"] - loss) < Z * summary["loss_stderr"]
