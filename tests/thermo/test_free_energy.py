"""Our MBAR against pymbar, which switches JAX to 64 bits for a whole process: it runs in one of its own."""

import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest

from tests.thermo.ladders import Bits, Gaussian
from trajens import thermo
from trajens.thermo.estimate import sample_of
from trajens.thermo.free_energy import exchange_rates, solve

SCRIPT = """
import json, sys
import numpy as np, pymbar
given = json.load(sys.stdin)
s, loss, values = (np.array(given[name]) for name in ("s", "loss", "values"))
mbar = pymbar.MBAR(s[:, None] * loss, given["counts"])
log_z = -mbar.compute_free_energy_differences()["Delta_f"][0]
mean = mbar.compute_expectations(values, u_kn=given["at"] * loss)["mu"]
print(json.dumps({"log_z": list(log_z), "mean": float(np.ravel(mean)[0])}))
"""

LADDERS = {"gaussian": (Gaussian, 10.0), "bits": (Bits, 3.0)}
REFERENCE = {
    "gaussian": (
        [0.0, -2.823364391052438, -7.917989875831065, -17.297472899690458, -35.04734426406883],
        0.17951564605104892,
    ),
    "bits": ([0.0, -1.0699597789209356, -1.6267734403846728, -2.193826916671422], 0.09057865522944902),
}
"""What pymbar 4.0.3 gave for these draws: ln Z, and the mean loss at an s in between."""


def drawn(name):
    """What was observed, with unequal chains, and the s in between."""
    model, at = LADDERS[name]
    rng = np.random.default_rng(7)
    found = model().observed(rng, 3, 40) if name == "gaussian" else model().draw(rng, 3, 40)[0]
    return thermo.Observed(found.s[:-1], found.losses[:-1]), at


def ours(observed, at):
    solution = solve(sample_of(observed, observed.losses, None))
    loss = observed.path_loss.ravel()
    return solution.log_z, solution.weights(loss, at) @ loss / observed.tau


@pytest.mark.parametrize("name", LADDERS)
def test_free_energies_are_those_of_pymbar(name):
    log_z, mean = ours(*drawn(name))
    np.testing.assert_allclose(log_z, REFERENCE[name][0], rtol=1e-7)
    assert mean == pytest.approx(REFERENCE[name][1], rel=1e-7)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("pymbar") is None, reason="pymbar is not installed")
@pytest.mark.parametrize("name", LADDERS)
def test_pymbar_still_says_so(name):
    observed, at = drawn(name)
    by_level = [observed.path_loss[chains] for chains in observed.members]
    loss = np.concatenate([level.ravel() for level in by_level])
    given = {
        "s": observed.levels.tolist(),
        "loss": loss.tolist(),
        "values": (loss / observed.tau).tolist(),
        "counts": [level.size for level in by_level],
        "at": at,
    }
    done = subprocess.run([sys.executable, "-c", SCRIPT], input=json.dumps(given), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    log_z, mean = ours(observed, at)
    np.testing.assert_allclose(log_z, found["log_z"], rtol=1e-7, atol=1e-9)
    assert mean == pytest.approx(found["mean"], rel=1e-7)


def test_large_losses_in_common_cost_no_digits():
    observed, _ = drawn("gaussian")
    plain = solve(sample_of(observed, observed.losses, None)).log_z
    raised = solve(sample_of(observed, observed.losses + 1e6, None)).log_z
    shift = observed.tau * 1e6 * (observed.levels - observed.levels[0])
    np.testing.assert_allclose(raised + shift, plain, atol=1e-6)


def test_levels_far_from_each_other_are_found_from_a_poor_start():
    """Steps of hundreds in ln Z between neighbours that still have draws in common."""
    rng = np.random.default_rng(0)
    s, draws, power = np.geomspace(1.0, 30.0, 24), 400, 400.0
    losses = rng.gamma(power, 1 / s[:, None], (24, draws))[:, :, None]
    sample = sample_of(thermo.Observed(s, losses), losses, None)
    assert exchange_rates(sample).min() > 0.01
    solution = solve(sample)
    again = solve(sample, solution._replace(f=np.zeros(24)))
    np.testing.assert_allclose(again.f, solution.f, atol=1e-9)
    found, exact = solution.log_z, -power * np.log(s)
    assert np.abs(exact[-1]) > 1000
    np.testing.assert_allclose(found, exact, rtol=0.01, atol=2.0)


def test_exchange_rates_are_those_of_gamma_laws():
    rng = np.random.default_rng(0)
    a, b = rng.gamma(3.0, 1.0, (2, 400_000)) / np.array([[1.0], [1.6]])
    told = np.exp(np.minimum(0.0, 0.6 * (b - a))).mean()
    losses = np.stack([a, b])[:, :, None]
    found = exchange_rates(sample_of(thermo.Observed([1.0, 1.6], losses), losses, None))
    assert found[0] == pytest.approx(told, abs=0.005)
