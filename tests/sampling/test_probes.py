"""What an audit looks at does not depend on how much memory it may take."""

import jax
import numpy as np

import trajens as tj
from trajens.sampling import probes
from trajens.sampling.measure import directions


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


def test_shifts_are_the_changes_of_the_projections_of_the_mean_model():
    tau = 4
    problem = tj.datasets.perceptron(size=64).problem()
    sampler = tj.Sampler(tj.Target(problem, tau, 0.1, 20.0), tj.Settings(chains=3, acceptance=tj.Penalty(8)))
    found = sampler.look_at(sampler.init(), 5, 10, 40)
    assert found.shifts.shape == (3, 10, 3)
    # One model of two parameters changes, and three projections of it are known.
    change = tau * found.shifts.reshape(-1, 3) @ np.linalg.pinv(directions(2)).T
    np.testing.assert_allclose((change**2).sum(1), found.distance.ravel(), rtol=1e-4)
    np.testing.assert_allclose(change @ directions(2).T / tau, found.shifts.reshape(-1, 3), rtol=1e-3, atol=1e-6)
