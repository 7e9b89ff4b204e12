"""An ensemble of policies for CartPole, without gradients: `python examples/reinforcement_learning.py`.

The loss of an episode is minus its return, scaled to 0..1. A decision between two policies plays as many fresh
episodes as its noise asks for.
"""

import numpy as np

import trajens as tj
from trajens import rl


def main(epochs=1600, episodes=100):
    """Sample paths of four linear policies, and try them in fresh episodes."""
    pole = rl.environment("CartPole-v1")
    policy = tj.models.linear(4, 2)  # four observations, two actions: the larger output is taken
    stream = rl.problem(pole, policy)
    burn_in = 3 * epochs // 4
    s = tj.schedule.exponential(3.0, 30.0, epochs=burn_in)
    target = tj.Target(stream, tau=4, sigma=0.5, s=s, prior=1.0)
    run = tj.sample(target, epochs, burn_in=burn_in, chains=2, acceptance=tj.Penalty(8), records=20, tune=True)
    low, high = pole.returns
    returns = high - (high - low) * np.asarray(run.records["loss"]).mean(0)
    print(f"mean return: {returns[0]:.0f} at the first record, {returns[-1]:.0f} at the last")
    scores = rl.scores(pole, rl.episodes_of(stream).policy, run.paths[0], episodes=episodes)
    for how, score in scores.items():
        print(f"{how}: {score.mean:.0f} +- {score.stderr:.0f}")
    return returns


if __name__ == "__main__":
    main()
