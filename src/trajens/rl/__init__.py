"""Reinforcement learning: the loss of a policy is minus the return of an episode, on a stream of episodes."""

from trajens.rl.cartpole import CartPole
from trajens.rl.environment import Box, Discrete, Environment
from trajens.rl.episode import Episode, episode
from trajens.rl.gymnax_adapter import Gymnax
from trajens.rl.named import environment, network
from trajens.rl.noise import Noisy
from trajens.rl.policy import MEAN, VOTE, Policy
from trajens.rl.problem import Episodes, episodes_of, problem
from trajens.rl.scores import Score, joint_returns, scores, single_returns

__all__ = [
    "MEAN",
    "VOTE",
    "Box",
    "CartPole",
    "Discrete",
    "Environment",
    "Episode",
    "Episodes",
    "Gymnax",
    "Noisy",
    "Policy",
    "Score",
    "environment",
    "episode",
    "episodes_of",
    "joint_returns",
    "network",
    "problem",
    "scores",
    "single_returns",
]
