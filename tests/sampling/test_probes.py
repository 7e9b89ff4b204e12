"""What an audit looks at does not depend on how much memory it may take."""

import jax
import numpy as np

import trajens as tj
from trajens.sampling import probes


def test_proposals_are_the_same_however_many_are_looked_at_together(monkeypatch):
    problem = tj.datasets.perceptron(size=64).problem()
    sampler = tj.Sampler(tj.Target(problem, 8, 0.1, 20.0), tj.Settings(chains=3, acceptance=tj.Penalty(8)))
    state = sampler.init()

    def look(at_once):
        monkeypatch.setattr(probes, "proposals_at_once", lambda *_: at_once)
        found = sampler.look_at(state, 5, 10, 40)
        # Steps come in parts, as many as there is room for looks.
        return found._replace(steps=found.steps.sum(1))

    whole, parts = look(10), look(4)
    assert whole.differences.shape == (3, 10, 40)
    assert len(np.unique(whole.differences[:, :, 0])) == 30
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), whole, parts)
