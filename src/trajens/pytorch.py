"""Networks of PyTorch as problems: a ``torch.nn.Module`` whose parameters are sampled, and the way back.

PyTorch evaluates many models at once (``torch.func``) on the host, see `trajens.host`; it is loaded when it is asked
for. Parameters are one flat vector in the order of ``named_parameters``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from trajens.errors import InputError, choice, first_line, integer, require
from trajens.host import call_host, external
from trajens.losses import LOSSES, Batch
from trajens.models.base import PRIOR
from trajens.precision import as_single
from trajens.problem import EXACT, NOISE, Problem

AT_ONCE = 64
"""Models that are evaluated at once, unless another number is asked for."""


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise InputError(
            f"from_torch needs PyTorch, got {first_line(error)}; install it with: pip install torch."
        ) from None
    return torch


class TorchNetwork:
    """A module of PyTorch as a model of flat parameters, for ensembles; a copy of it, in its evaluation mode.

    Parameters
    ----------
    module : torch.nn.Module
    x : (N, ...)
        Inputs like those it will be given, two at least.
    at_once : int
        Models evaluated at once by ``torch.func.vmap``; with 1 there is no such mapping.
    """

    def __init__(self, module: Any, x: np.ndarray, at_once: int = AT_ONCE):
        torch = _torch()
        require(
            isinstance(module, torch.nn.Module),
            f"module must be a torch.nn.Module, got {type(module).__name__}; pass the network itself.",
        )
        self.module = deepcopy(module).eval()
        self.at_once = integer("at_once", at_once, 1, f"try {AT_ONCE}")
        self._parameters = {name: value for name, value in self.module.named_parameters() if value.requires_grad}
        require(
            len(self._parameters) > 0,
            f"module must have parameters that require gradients, got {type(module).__name__} without; those that do "
            "not stay as they are.",
        )
        bad = [name for name, value in self._parameters.items() if value.dtype != torch.float32]
        require(not bad, f"parameters must be float32, got others in {', '.join(bad)}; use module.float().")
        self.device = next(iter(self._parameters.values())).device
        self.input_shape = x.shape[1:]
        self.outputs = self._count_outputs(x[:2])

    @property
    def dim(self) -> int:
        """Number of parameters that are sampled."""
        return sum(value.numel() for value in self._parameters.values())

    def _count_outputs(self, x: np.ndarray) -> int:
        torch = _torch()
        try:
            with torch.no_grad():
                shape = tuple(self.module(self.tensor(x)).shape)
        except Exception as error:
            raise InputError(
                f"module failed on inputs of shape {x.shape} with {first_line(error)}; try it on a slice of the data."
            ) from error
        require(
            len(shape) == 2 and shape[0] == len(x),
            f"module must give outputs (m, outputs), got {shape} for {len(x)} inputs; flatten them in the module.",
        )
        return shape[1]

    @property
    def initial(self) -> np.ndarray:
        """The parameters (dim,) of the module itself."""
        parts = [value.detach().cpu().numpy().ravel() for value in self._parameters.values()]
        return np.concatenate(parts).astype(np.float32)

    @property
    def layer_sizes(self) -> dict[str, int]:
        """Numbers of parameters by submodule, in their order: those of "0.weight" and "0.bias" are the layer "0"."""
        sizes: dict[str, int] = {}
        for name, value in self._parameters.items():
            layer = name.rpartition(".")[0] or name
            sizes[layer] = sizes.get(layer, 0) + value.numel()
        return sizes

    def unpack(self, theta: Any) -> dict[str, Any]:
        """Parameters by their names, of a flat vector (dim,): views of it."""
        found, start = {}, 0
        for name, value in self._parameters.items():
            found[name] = theta[start : start + value.numel()].reshape(tuple(value.shape))
            start += value.numel()
        return found

    def tensor(self, array: np.ndarray) -> Any:
        """A tensor on the device of the module; whole numbers become int64, as PyTorch wants classes, bytes stay."""
        torch = _torch()
        found = torch.from_numpy(np.array(array))
        is_whole = not found.is_floating_point() and found.dtype not in (torch.uint8, torch.bool)
        return (found.long() if is_whole else found).to(self.device)

    def run(self, finish: Callable[..., Any], thetas: np.ndarray, *given: np.ndarray) -> np.ndarray:
        """`finish` of the outputs and the rest of `given`, (k, ...) for every one of the models (k, dim).

        `given` are inputs (k, m, ...) and whatever else `finish` takes, with the same leading axis.
        """
        torch = _torch()

        def one(theta: Any, x: Any, *rest: Any) -> Any:
            return finish(torch.func.functional_call(self.module, self.unpack(theta), (x,)), *rest)

        with torch.no_grad():
            tensors = [self.tensor(array) for array in (thetas, *given)]
            if self.at_once == 1:
                found = torch.stack([one(*row) for row in zip(*tensors, strict=True)])
            else:
                found = torch.func.vmap(one, chunk_size=self.at_once)(*tensors)
            return np.asarray(found.cpu().numpy(), np.float32)

    def apply(self, theta: jax.Array, x: jax.Array) -> jax.Array:
        """Outputs (m, outputs) of one model, by a call of the host."""
        return call_host(self._apply_here, (len(x), self.outputs), theta, x)

    def _apply_here(self, theta: np.ndarray, x: np.ndarray) -> np.ndarray:
        return self.run(lambda outputs: outputs, theta[None], x[None])[0]

    def state_dicts(self, path: np.ndarray) -> list[dict[str, Any]]:
        """A state dict for every model of a path (tau, dim), buffers and frozen parameters included."""
        torch, found = _torch(), []
        # Tied parameters have several names in a state dict, and one among the parameters.
        names = {id(value): name for name, value in self._parameters.items()}
        kept = self.module.state_dict(keep_vars=True)
        for theta in path:
            own = self.unpack(torch.from_numpy(np.array(theta, np.float32)).to(self.device))
            found.append(
                {
                    name: (own[names[id(value)]] if id(value) in names else value.detach()).clone()
                    for name, value in kept.items()
                }
            )
        return found

    def __repr__(self) -> str:
        return f"TorchNetwork({type(self.module).__name__}, dim={self.dim})"


@dataclass(frozen=True, eq=False)
class TorchLoss:
    """Losses (k, m) of many models of a module, by a function of outputs (m, outputs) and targets (m, ...)."""

    network: TorchNetwork
    of_outputs: Callable[[Any, Any], Any]
    name: str

    def __call__(self, thetas: np.ndarray, batches: Batch) -> np.ndarray:
        return self.network.run(self.of_outputs, thetas, batches.x, batches.y)

    def __repr__(self) -> str:
        return f"TorchLoss({type(self.network.module).__name__}, {self.name})"


def _cross_entropy(outputs: Any, y: Any) -> Any:
    return _torch().nn.functional.cross_entropy(outputs, y, reduction="none")


def _squared(outputs: Any, y: Any) -> Any:
    return 0.5 * (y - outputs[:, 0]) ** 2


def _zero_one(outputs: Any, y: Any) -> Any:
    is_wrong = (outputs.argmax(-1) != y).float()
    return is_wrong.masked_fill(outputs.isnan().any(-1), math.nan)


_BY_NAME = dict(zip(LOSSES, (_cross_entropy, _squared, _zero_one), strict=True))


def from_torch(
    module: Any,
    loss: str | Callable[[Any, Any], Any],
    data: Any,
    *,
    at_once: int = AT_ONCE,
    initial: Any = None,
    spread: Any = None,
    prior: float | None = None,
) -> Problem:
    """Problem whose model is a ``torch.nn.Module``; PyTorch evaluates it, and no gradient is computed.

    A copy of the module is used in its evaluation mode, so that dropout is off and batch normalisation uses its running
    statistics. Buffers, and parameters that do not require gradients, stay as they are; all others are sampled.

    Parameters
    ----------
    module : torch.nn.Module
        From inputs (m, ...) to outputs (m, outputs), of every input by itself, on any device.
    loss : str or callable
        "cross-entropy" or "0-1" for whole labels from 0, "squared" for (y - output)^2 / 2; or a function of PyTorch,
        ``loss(outputs, targets) -> (m,)``, with ``reduction="none"``.
    data : (inputs, targets)
        Arrays or tensors with leading axis N, or a ``TensorDataset`` of two.
    at_once : int
        Models evaluated at once by ``torch.func.vmap``. Each takes memory for its outputs in all layers. With 1 they
        are evaluated one after the other, also where a module cannot be mapped.
    initial : array (dim,), optional
        The model that paths start from; default the parameters of the module.
    spread : array (dim,), optional
        As for `trajens.Problem`; default none: all chains start from one model.
    prior : float, optional
        As for `trajens.Problem`; default 0.3, or the root mean square of the initial parameters where that is more.

    Returns
    -------
    Problem
        It knows its layers by the names of submodules. ``Ensemble.from_run(run)`` predicts with it, and
        ``Ensemble.state_dicts()`` are its models for PyTorch.

    Examples
    --------
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))  # doctest: +SKIP
    >>> run = tj.train(tj.from_torch(net, "cross-entropy", (x, y)), tau=8, budget=1e6)  # doctest: +SKIP
    >>> net.load_state_dict(tj.Ensemble.from_run(run).state_dicts()[0])  # doctest: +SKIP
    """
    batch = _batch(data)
    network = TorchNetwork(module, batch.x, at_once)
    is_named = isinstance(loss, str)
    require(
        is_named or callable(loss),
        f"loss must be a name or a function of (outputs, targets), got {loss!r}; try 'cross-entropy'.",
    )
    name = choice("loss", loss, _BY_NAME) if is_named else getattr(loss, "__name__", type(loss).__name__)
    if is_named:
        _require_labels(name, batch.y, network.outputs)
    own = network.initial if initial is None else initial
    if prior is None:
        prior = max(PRIOR, float(np.sqrt(np.mean(np.square(np.asarray(own, np.float64))))))
    likelihood = {_cross_entropy: EXACT, _squared: NOISE}.get(_BY_NAME[name]) if is_named else None
    of_outputs: Callable[[Any, Any], Any] = _BY_NAME[name] if is_named else loss  # type: ignore[assignment]
    problem = external(
        TorchLoss(network, of_outputs, name),
        batch,
        network.dim,
        vectorised=True,
        initial=own,
        spread=spread,
        prior=prior,
        layers=network.layer_sizes,
        likelihood=likelihood,
    )
    problem.network = network
    return problem


def _batch(data: Any) -> Batch:
    """Inputs and targets as arrays of NumPy."""
    data = getattr(data, "tensors", data)
    is_pair = isinstance(data, (tuple, list)) and len(data) == 2
    require(
        is_pair,
        f"data must be a pair (inputs, targets), got {type(data).__name__}; stack the examples of a loader.",
    )
    x, y = (part.detach().cpu().numpy() if hasattr(part, "detach") else part for part in data)
    return Batch(as_single("inputs", x), as_single("targets", y))


def _require_labels(loss: str, y: np.ndarray, outputs: int) -> None:
    """Refuse targets that a loss by name is not for."""
    require(y.ndim == 1, f"targets must have shape (N,) for the loss {loss!r}, got {y.shape}; pass one per example.")
    if loss == "squared":
        require(outputs == 1, f"a squared loss needs a module of 1 output, got {outputs}; pass a function as loss.")
        return
    is_label = y.dtype.kind in "biu" and y.size > 0 and int(y.min()) >= 0 and int(y.max()) < outputs
    require(
        bool(is_label),
        f"targets must be whole numbers in 0..{outputs - 1} for the loss {loss!r}, got {y.dtype} from {y.min()} to "
        f"{y.max()}; number the classes from 0.",
    )
