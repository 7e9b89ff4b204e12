"""What a run is: all that must not change when it is resumed, its loss and its model included.

A function of the user's own has no name that would be the same in another process, so besides its name a loss is known
by its values: at one fixed model, on some of the data.
"""

from __future__ import annotations

import json
import platform
import re
import sys
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import numpy as np

from trajens.errors import require
from trajens.kernels import library
from trajens.losses import compiled_losses_of_pairs
from trajens.problem import Problem
from trajens.sampling.settings import Settings
from trajens.storage.witness import are_close
from trajens.target import Target
from trajens.version import __version__

_FUNCTION, _ADDRESS = re.compile(r"<function .*? at 0x[0-9a-f]+>"), re.compile(r" at 0x[0-9a-f]+")
_PROBES = 16


def identity_of(target: Target, settings: Settings) -> dict[str, Any]:
    """What must not change when a run is resumed."""
    problem = target.problem
    return {
        "tau": target.tau,
        "sigma": target.sigma,
        "s": target.s_values.tolist(),
        "schedule": _named(target.schedule),
        "prior": target.prior,
        "parameters": problem.dim,
        **({} if problem.population.limit else {"examples": problem.size}),
        "data_checksum": _checksum(problem.data),
        "loss": _named(problem.loss),
        "model": description_of(problem),
        "losses": _probed(problem),
        "chains": settings.chains,
        "seed": settings.seed,
        "burn_in": settings.burn_in,
        "move": _named(settings.move),
        "acceptance": _named(settings.acceptance),
        "scan": _named(settings.scan),
        "keep_paths": settings.keep_paths,
        "observe": list(settings.observe),
        # None where there is none of it, as in runs of before.
        "scores": _scores(settings.scores),
        "tune": settings.tune or None,
        "exchange": _named(settings.exchange),
        "course": _named(settings.course),
        "max_batch": problem.population.limit,
    }


def require_same(before: dict[str, Any], now: dict[str, Any], path: Path) -> None:
    """Refuse to go on with a run that was begun with something else."""
    now = json.loads(json.dumps(now))
    changed = [
        f"{name} {before.get(name)} (now {now[name]})"
        for name in now
        if name != "losses" and now[name] != before.get(name)
    ]
    if not changed and not _are_close(before.get("losses"), now["losses"]):
        changed = ["a loss of other values, so that the model or the loss is another"]
    require(
        not changed,
        f"a run must be resumed with what it was begun with, got '{path}' begun with {', '.join(changed)}; use the "
        "same settings and data, or start a new run.",
    )


def description_of(problem: Problem) -> dict[str, Any] | None:
    """The model of a problem in plain values, where it is one of `trajens.models`."""
    return getattr(getattr(problem.loss, "model", None), "description", None)


def machine() -> dict[str, Any]:
    """What a run was made with."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "trajens": __version__,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "numpy": np.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "host": platform.node(),
        "devices": [str(device) for device in jax.devices()],
        "loss_kernel": library().rounding,
    }


def _named(part: Any) -> str | None:
    """What a part of a run calls itself, without addresses, which are others in every process."""
    if part is None:
        return None
    return _ADDRESS.sub("", _FUNCTION.sub("a function", repr(part)))


def _scores(scores: Any) -> Any:
    return scores if scores is None or isinstance(scores, str) else _checksum(scores)


def _checksum(data: Any) -> int:
    checksum = 0
    for leaf in jax.tree.leaves(data):
        checksum = zlib.crc32(np.ascontiguousarray(leaf).reshape(-1).view(np.uint8).data, checksum)
    return checksum


def _probed(problem: Problem) -> list[float | None]:
    """Losses of one fixed random model on some of the examples; None where they are not finite."""
    rng = np.random.default_rng(0)
    spread = problem.dim**-0.5 if problem.spread is None else np.maximum(problem.spread, 0.01)
    model = (spread * rng.standard_normal(problem.dim)).astype(np.float32)
    if problem.initial is not None:
        model = model + problem.initial
    some = problem.population.some(_PROBES)[None]
    pair = np.stack([model, model])[None]
    losses = np.asarray(compiled_losses_of_pairs(problem.loss, problem.data, pair, some, np.ones(1, bool)))[0, 0]
    return [float(loss) if np.isfinite(loss) else None for loss in losses]


def _are_close(before: Any, now: list[float | None]) -> bool:
    if not isinstance(before, list) or len(before) != len(now):
        return False
    return are_close(*(np.array([np.nan if value is None else value for value in v], float) for v in (before, now)))
