"""Reinforcement learning: the loss of a policy is minus the return of an episode, on a stream of episodes."""

from trajens.rl.cartpole import CartPole
from trajens.rl.catalogue import Gymnax, environment, network
from trajens.rl.environment import Box, Discrete, Environment, Noisy
from trajens.rl.evaluation import Score, joint_returns, scores, single_returns
from trajens.rl.policy import MEAN, VOTE, Policy
from trajens.rl.problem import Episode, Episodes, episode, episodes_of, problem

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
