"""The thermodynamics of training: s is an inverse temperature, conjugate to the path loss.

    Z(s) = sum over paths of p(Theta) exp(-s L),   L = sum_t L(theta_t),   -d ln Z/ds = <L>,   d^2 ln Z/ds^2 = Var L

`observe` measures the losses of paths that a run has kept; the rest is computed from them, in float64, with errors over
independent chains.
"""

from trajens.thermo.fluctuations import CorrelationTimes, Curve, correlation_times, curve
from trajens.thermo.free_energy import LogZ, log_z
from trajens.thermo.observation import Observed, observe
from trajens.thermo.overlap import Overlap, overlap
from trajens.thermo.reweighting import RateFunction, Reweighted, rate_function, reweight

__all__ = [
    "CorrelationTimes",
    "Curve",
    "LogZ",
    "Observed",
    "Overlap",
    "RateFunction",
    "Reweighted",
    "correlation_times",
    "curve",
    "log_z",
    "observe",
    "overlap",
    "rate_function",
    "reweight",
]
