"""What minibatches save: full-batch Metropolis against the penalty test at equal s, from the same path, on MNIST.

A path is first trained with minibatches at fixed s; then both tests go on from it. The cost of an epoch is its
batch, so N / <b> is the saving in data per proposal; per *accepted* proposal it is corrected by the acceptances.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from rich.console import Console
from rich.table import Table

import trajens as tj


def main() -> None:
    """Train, continue with both tests, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--s", type=float, default=50.0)
    parser.add_argument("--tau", type=int, default=8)
    parser.add_argument("--train", type=int, default=20_000, help="epochs of the path both start from")
    parser.add_argument("--full", type=int, default=200, help="epochs of the full-batch test")
    parser.add_argument("--minibatch", type=int, default=20_000, help="epochs of the minibatch test")
    given = parser.parse_args()

    digits = tj.datasets.mnist()
    problem = tj.models.cnn().problem(digits.train_x, digits.train_y)
    target = tj.Target(problem, given.tau, sigma=0.05, s=given.s, prior=0.3)
    usual: dict[str, Any] = {"chains": 1, "scan": "checkerboard", "move": tj.SingleSite(0.25), "progress": True}
    start = tj.sample(target, given.train, acceptance=tj.Penalty(240), burn_in=0, records=4, **usual)
    table = Table(title=f"MNIST, tau = {given.tau}, s = {given.s:g}, from a loss of {start.records['loss'][0, -1]:.3f}")
    for heading in ("test", "acceptance", "mean batch", "N / <b>", "per accepted", "epochs/s", "loss after"):
        table.add_column(heading, justify="left" if heading == "test" else "right")
    full_cost = 0.0
    for name, test, epochs in (
        ("full-batch Metropolis", tj.Metropolis(), given.full),
        ("minibatch penalty", tj.Penalty(240), given.minibatch),
    ):
        arguments = {**usual, "acceptance": test, "initial": start.paths, "burn_in": epochs // 10, "records": 10}
        tj.sample(target, 16, **{**arguments, "burn_in": 0, "progress": False})
        begin = time.perf_counter()
        run = tj.sample(target, epochs, **arguments)
        speed = epochs / (time.perf_counter() - begin)
        numbers = run.summary()
        cost = numbers["batch_size"] / numbers["acceptance"]
        full_cost = full_cost or cost
        table.add_row(
            name,
            f"{numbers['acceptance']:.3f}",
            f"{numbers['batch_size']:.0f}",
            f"{problem.size / numbers['batch_size']:.0f}",
            f"{full_cost / cost:.0f}",
            f"{speed:.3g}",
            f"{run.records['loss'][0, -1]:.3f}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
