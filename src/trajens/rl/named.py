"""Environments and networks by name, for the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trajens.models import ACTIVATION, Mlp, linear, mlp
from trajens.rl.cartpole import CartPole
from trajens.rl.environment import Environment
from trajens.rl.gymnax_adapter import Gymnax
from trajens.rl.policy import inputs_of, outputs_of

_NAME = re.compile(r"[A-Za-z]\w*-(v\d+|MinAtar|bsuite|misc)")


def is_environment(name: str) -> bool:
    """Whether a text looks like the name of an environment."""
    return _NAME.fullmatch(name) is not None


def environment(name: str) -> Environment:
    """CartPole-v1, which is written here, or an environment of gymnax."""
    return CartPole() if name == CartPole().name else Gymnax(name)


def network(environment: Environment, hidden: Sequence[int] = (), activation: str = ACTIVATION) -> Mlp:
    """A network for a policy: linear, or with hidden layers."""
    inputs, outputs = inputs_of(environment), outputs_of(environment)
    return mlp((inputs, *hidden, outputs), activation) if hidden else linear(inputs, outputs)
