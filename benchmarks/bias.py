"""Bias of the sampled excess loss, acceptance and data of every test, on the noisy-label perceptron.

N = 256, noise 1, tau = 4, sigma = 0.1, s = 150, chunk 16, random scan; standard errors over 1024 chains.

    python benchmarks/bias.py
"""

from __future__ import annotations

import os

import jax


def main() -> None:
    """Print one line per test."""
    jax.config.update("jax_num_cpu_devices", os.cpu_count())
    import trajens as tj

    data = tj.datasets.perceptron(seed=0, noise=1.0)
    tau, sigma, s, epochs = 4, 0.1, 150.0, 8000
    exact = tj.exact.perceptron(data.x, data.y, tau, sigma, s)
    tests = {
        "full-data Barker": tj.Barker(),
        "the paper's scheme": tj.paper_test(16),
        "minibatch Barker, rho = 1": tj.MinibatchBarker(16),
        "penalty, sequential, rho = 1.35": tj.Penalty(16, plan=False),
        "penalty, planned, rho = 1": tj.Penalty(16, rho=1.0),
        "penalty, planned, rho = 1.35": tj.Penalty(16, rho=1.35),
    }
    print(f"{'test':34s} {'bias of excess loss':>22s} {'acceptance':>11s} {'mean batch':>11s} {'deciding':>9s}")
    for name, test in tests.items():
        target = tj.Target(data.problem(), tau, sigma, s)
        run = tj.sample(target, epochs, chains=1024, burn_in=epochs // 5, move=tj.SingleSite(), test=test, records=80)
        m = run.summary()
        bias, error, deciding = (
            100.0 * value / exact.excess
            for value in (m["loss"] - exact.loss, m["loss_stderr"], m["loss_deciding"] - exact.loss)
        )
        print(
            f"{name:34s} {bias:+12.2f} +- {error:.2f} %"
            f" {m['acceptance']:11.3f} {m['batch_size']:11.1f} {deciding:+8.0f}%",
            flush=True,
        )


if __name__ == "__main__":
    main()
