"""Train an ensemble of PyTorch networks without gradients: `python examples/torch_network.py`.

A small convolutional network tells horizontal stripes from vertical ones, in images with noise. What comes out are
state dicts, which PyTorch loads.
"""

import numpy as np
import torch

import trajens as tj


def stripes(rng, count):
    """Images (count, 1, 8, 8) and their directions (count,)."""
    directions = rng.integers(0, 2, count)
    waves = np.sin(np.arange(8) * 2.1 + rng.uniform(0, 2 * np.pi, (count, 1)))
    images = np.where(directions[:, None, None] == 0, waves[:, :, None], waves[:, None, :])
    noisy = images + 0.5 * rng.standard_normal((count, 8, 8))
    return noisy[:, None].astype(np.float32), directions


def main(budget=400_000):
    """Train on 600 images, and say how many of 400 others are told apart."""
    rng = np.random.default_rng(0)
    (x, y), (x_test, y_test) = stripes(rng, 600), stripes(rng, 400)
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3),
        torch.nn.ReLU(),
        torch.nn.AdaptiveMaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(16, 2),
    )
    problem = tj.from_torch(net, "cross-entropy", (x, y))
    run = tj.train(problem, tau=8, chains=1, budget=budget)
    ensemble = tj.Ensemble.from_run(run)
    found = ensemble.evaluate(x_test, y_test)
    print(f"{len(ensemble.path)} networks: {found['mean_accuracy']:.1%} of new images right, NLL {found['nll']:.3f}")

    net.load_state_dict(ensemble.state_dicts()[0])
    with torch.no_grad():
        right = (net(torch.from_numpy(x_test)).argmax(1).numpy() == y_test).mean()
    print(f"the first of them, in PyTorch: {right:.1%}")
    return found


if __name__ == "__main__":
    main()
