"""Closed forms used as ground truth.

Linear perceptron, l_i = (y_i - theta.x_i)^2 / 2. The path density is Gaussian with precision

    A = s (I_tau x H) + (K x I_D) / sigma^2 + (e_1 e_1' x I_D) / sigma_0^2,   H = X'X / N,

K the Laplacian of the path (free ends), and A mean = s (1_tau x X'y / N). With L the path loss,

    <L> = sum_t L(mean_t) + tr(H_path C) / 2,   Var L = tr((H_path C)^2) / 2 + g' C g,   C = A^-1,
    ln Z(s) = const - ln det A / 2 - s <tilt at the mode>,   -d ln Z / ds = <L>,   d^2 ln Z / ds^2 = Var L,

g the gradient of L at the mean (0 for a flat prior).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trajens.errors import integer, number, require


@dataclass(frozen=True)
class ExactPaths:
    """Exact distribution of the paths of a linear perceptron.

    Attributes
    ----------
    loss : float
        ``<L> / tau``, the mean loss per model.
    variance : float
        Var L of the path loss L = sum_t L(theta_t).
    log_z : float
        ln Z(s) up to a constant that does not depend on s: differences at fixed tau, sigma and prior are exact.
    minimum : float
        L_min, the least-squares loss of one model.
    mean : (tau, D)
    covariance : (tau, D, tau, D)
    """

    loss: float
    variance: float
    log_z: float
    minimum: float
    mean: np.ndarray
    covariance: np.ndarray

    @property
    def excess(self) -> float:
        """``<L> / tau - L_min``."""
        return self.loss - self.minimum


def perceptron(x: Any, y: Any, tau: int, sigma: float, s: float, prior: float | None = None) -> ExactPaths:
    """Exact averages of the tilted path distribution of a linear perceptron.

    Parameters
    ----------
    x : (N, D)
        Inputs.
    y : (N,)
        Labels.
    tau : int
        Models in a path.
    sigma : float
        Standard deviation of a step.
    s : float
        One number, > 0 for a flat prior.
    prior : None or float
        Standard deviation of the first model; None is flat.

    Returns
    -------
    ExactPaths
    """
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    require(
        x.ndim == 2 and y.shape == x.shape[:1],
        f"x must have shape (N, D) and y shape (N,), got {x.shape} and {y.shape}; add a column of ones for a constant.",
    )
    tau = integer("tau", tau, 1, "use 1 or more models")
    sigma = number("sigma", sigma, "try 0.1", above=0.0)
    if prior is None:
        s = number("s", s, "a flat prior needs s > 0", above=0.0)
    else:
        s = number("s", s, "s = 0 is the untilted distribution", at_least=0.0)
    size, dim = x.shape
    hessian = x.T @ x / size
    solution = np.linalg.lstsq(x, y, rcond=None)[0]
    minimum = 0.5 * float(np.mean((y - x @ solution) ** 2))

    bonds = np.diff(np.eye(tau), axis=0)
    chain = bonds.T @ bonds / sigma**2
    if prior is not None:
        chain[0, 0] += number("prior", prior, "use None for a flat prior", above=0.0) ** -2
    path_hessian = np.kron(np.eye(tau), hessian)
    precision = s * path_hessian + np.kron(chain, np.eye(dim))
    # Around the least-squares solution everything is a pure quadratic: no cancellation of large terms.
    pull = np.kron(chain, np.eye(dim)) @ np.tile(solution, tau)
    offset = -np.linalg.solve(precision, pull)
    covariance = np.linalg.inv(precision)
    gradient = path_hessian @ offset
    smeared = path_hessian @ covariance
    loss = tau * minimum + 0.5 * offset @ gradient + 0.5 * np.trace(smeared)
    variance = 0.5 * np.trace(smeared @ smeared) + gradient @ covariance @ gradient
    # ln Z = -(ln det A)/2 + max of the exponent; the part of it that is constant in s is left out.
    log_z = -0.5 * np.linalg.slogdet(precision)[1] - s * tau * minimum + 0.5 * pull @ -offset
    return ExactPaths(
        float(loss / tau),
        float(variance),
        float(log_z),
        minimum,
        (offset + np.tile(solution, tau)).reshape(tau, dim),
        covariance.reshape(tau, dim, tau, dim),
    )
