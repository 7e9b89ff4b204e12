"""The paper's Algorithm 1 as one would write it in PyTorch: one chain, one random model at a time, conv2d.

It is what `sampler.py` is compared with, and nothing else uses it. Errata of the algorithm are put right:
the batch starts with one chunk, and the cut-off has a branch of its own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch  # type: ignore[import-not-found,unused-ignore]
from torch.nn import functional as f  # type: ignore[import-not-found,unused-ignore]

from trajens.acceptance.barker import correction_table


def losses(theta: torch.Tensor, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross-entropy (m,) of the network with parameters `theta` (1906,) on images (m, 1, 28, 28)."""
    w1, b1, w2, b2, w3, b3 = theta.split([400, 16, 1152, 8, 320, 10])
    h = f.relu(f.max_pool2d(f.conv2d(images, w1.view(16, 1, 5, 5), b1), 2))
    h = f.relu(f.max_pool2d(f.conv2d(h, w2.view(8, 16, 3, 3), b2), 4))
    return f.cross_entropy(f.linear(h.flatten(1), w3.view(10, 32), b3), labels, reduction="none")


@torch.no_grad()  # type: ignore[untyped-decorator,unused-ignore]
def algorithm_1(
    path: torch.Tensor,
    images: torch.Tensor,
    labels: torch.Tensor,
    s: float,
    sigma: float,
    fraction: float,
    chunk: int,
    seed: int = 0,
) -> Iterator[int]:
    """Sample paths (tau, dim) with a flat prior, in place, for as long as it is asked to.

    Yields
    ------
    int
        The batch of every proposal: how many examples were taken before it was decided.
    """
    table = correction_table(1.0, "ridge")
    cumulative = np.cumsum(table.probabilities)
    rng = np.random.default_rng(seed)
    device = path.device
    generator = torch.Generator(device).manual_seed(seed)
    (tau, dim), size = path.shape, len(labels)
    while True:
        t = int(rng.integers(tau))
        neighbours = [path[i] for i in (t - 1, t + 1) if 0 <= i < tau] or [path[t]]
        mean = torch.stack(neighbours).mean(0)
        noise = torch.randn(dim, generator=generator, device=device)
        is_redrawn = torch.rand(dim, generator=generator, device=device) < fraction
        proposal = torch.where(is_redrawn, mean + sigma / math.sqrt(len(neighbours)) * noise, path[t])
        order = torch.randperm(size, generator=generator, device=device)
        deltas = torch.empty(0, device=device)
        while True:
            batch = order[len(deltas) : len(deltas) + chunk]
            x, y = images[batch], labels[batch]
            deltas = torch.cat([deltas, -s * (losses(proposal, x, y) - losses(path[t], x, y))])
            delta = deltas.mean().item()
            rho2 = deltas.var().item() / len(deltas)
            if len(deltas) == size:
                is_accepted = delta + rng.logistic() > 0
            elif abs(delta) > 10 + 5 * math.sqrt(rho2):
                is_accepted = delta > 0
            elif rho2 <= 1:
                # The last sum of probabilities may be rounded to less than 1.
                atom = min(int(np.searchsorted(cumulative, rng.random())), len(cumulative) - 1)
                x_corr = table.atoms[atom] * rng.choice((-1, 1))
                is_accepted = delta + math.sqrt(1 - rho2) * rng.standard_normal() + x_corr > 0
            else:
                continue
            break
        if is_accepted:
            path[t] = proposal
        yield len(deltas)


def in_torch_order(path: np.ndarray) -> np.ndarray:
    """Parameters (tau, 1906) of `trajens.models.cnn` in the order of PyTorch's layers."""
    w1, b1, w2, b2, w3, b3 = np.split(path, np.cumsum([400, 16, 1152, 8, 320]), axis=1)
    shapes = ((5, 5, 1, 16), (3, 3, 16, 8), (2, 2, 8, 10))
    turned = [
        w.reshape(-1, *shape).transpose(0, 4, 3, 1, 2).reshape(len(path), -1)
        for w, shape in zip((w1, w2, w3), shapes, strict=True)
    ]
    return np.concatenate([turned[0], b1, turned[1], b2, turned[2], b3], axis=1)


def tensors(path: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A path, byte images and labels as `algorithm_1` takes them, on the GPU where PyTorch sees one."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images = torch.tensor(x, device=device).float()[:, None] / 255.0
    return torch.tensor(in_torch_order(path), device=device), images, torch.tensor(y.astype(np.int64), device=device)


def choose_threads(run: Callable[[], object]) -> None:
    """Let PyTorch use all its threads or one, whichever is faster; on busy cores its threads wait for each other."""
    run()
    seconds = {}
    for count in (torch.get_num_threads(), 1):
        torch.set_num_threads(count)
        begin = time.perf_counter()
        run()
        seconds[count] = time.perf_counter() - begin
    torch.set_num_threads(min(seconds, key=lambda count: seconds[count]))


def device_name() -> str:
    """PyTorch's version and the device it computes on."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU, {torch.get_num_threads()} threads"
    return f"PyTorch {torch.__version__} on {device}"
