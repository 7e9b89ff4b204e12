"""Resuming a run from its directory: what it was sampled with is made again from what the directory says of it.

The description of a run (`trajens.run.identity`) names every part and its fields, of which parts of the library are
made again; a loss, an observable or a part of a user's own cannot be, and is asked for. What was made is compared with
the description before anything goes on, so that nothing else than the same run can be continued.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Unpack, cast

from trajens import acceptance, moves
from trajens.convergence import Converged
from trajens.errors import InputError, integer, require
from trajens.files import path_of
from trajens.moves import scan
from trajens.problem import Problem
from trajens.run import control, until
from trajens.run.control import Budget
from trajens.run.identity import RunIdentity
from trajens.run.progress import Show, Stop
from trajens.run.run import Run, renamed_settings, run_or_resume
from trajens.run.start import HELD_OUT
from trajens.run.stored import StoredRun
from trajens.run.train import in_usual_precision
from trajens.sampling import exchange
from trajens.sampling.settings import Settings, SettingsDict, settings_of
from trajens.schedule import Ramp, Steps
from trajens.storage.directory import RunDirectory, RunFiles
from trajens.target import Target


def resume(
    path: str | Path,
    problem: Problem | Target | None = None,
    *,
    epochs: int = 0,
    progress: bool | Show = False,
    stop: Stop | None = None,
    **settings: Unpack[SettingsDict],
) -> Run:
    """Go on with the run in a directory, bit for bit as if it had never been interrupted, and add `epochs` to it.

    A run that was interrupted goes on to the epochs, or the budget, it was asked for; one that is complete is handed
    back, or extended. As for `Run.extend` and ``trajens resume``, `epochs` are added; `sample` with ``resume=True``
    is told how many there are in all.

    Parameters
    ----------
    path : path
        Directory of a run of `sample`, `train` or ``trajens train``.
    problem : Problem or Target, optional
        What was sampled; needed for runs made in Python, whose loss is not in the directory. Data and losses that are
        not those of the run are refused.
    epochs : int
        To add to those asked for before.
    progress, stop
        As for `sample`.
    **settings
        Parts of one's own that the directory knows by name only (``observe``, a ``move`` that is not of the library,
        ``example_weights`` that were an array), and ``devices``.

    Returns
    -------
    Run
    """
    stored = StoredRun.of(RunFiles(path_of(path), falls_back=True))
    more = integer("epochs", epochs, 0, "give the number of epochs to add")
    if stored.config is not None:
        require(
            problem is None and not settings,
            f"problem and settings must be left out for '{path}', a run of trajens train, which knows them; leave them "
            "out.",
        )
        # What the command line has run is made again by what made it.
        from trajens.app.experiment import Experiment

        experiment = Experiment.load(stored)
        total = epochs_in_all(stored, experiment.config.epochs, more)
        return experiment.run(path, True, progress=progress, stop=cast(Any, stop), epochs=total)
    require(
        stored.has_checkpoint,
        f"'{path}' must hold a checkpoint to go on from, got none yet; call sample or train again with resume=True.",
    )
    if problem is None:
        raise InputError(
            f"problem must be given for '{path}', a run made in Python, whose loss is not in its directory, got none; "
            "try resume(path, problem)."
        )
    identity = _remade(stored, problem, settings)
    directory = RunDirectory(path, resume=True)
    if isinstance(identity.controller, Budget):
        run = run_or_resume(identity, _never, directory, progress=progress, stop=stop)
        return run.extend(more, progress=progress, stop=stop) if more and run.is_complete else run
    return run_or_resume(identity, _never, directory, progress=progress, stop=stop, epochs=stored.last_epoch + more)


def epochs_in_all(stored: StoredRun, asked: int | None, more: int) -> int:
    """What a run of the command line is to reach, with `more` epochs; those to add, for one on a budget."""
    return more if asked is None else max(stored.last_epoch, asked) + more


def _never(*_: Any) -> Any:
    raise AssertionError("a run with a checkpoint is not begun again")


def _remade(stored: StoredRun, what: Problem | Target, given: Mapping[str, Any]) -> RunIdentity:
    """What the run was sampled with, of its description and what was given besides."""
    known, parts = stored.identity, _classes()
    controller = _made(known["controller"], "controller", parts)
    if isinstance(what, Target):
        target = what
    else:
        require(
            isinstance(what, Problem),
            f"problem must be a trajens.Problem or Target, got {type(what).__name__}; give what was sampled.",
        )
        is_held_out = getattr(controller, "is_noise_unknown", False) and what.held_out is None
        schedule = _made(known.get("schedule"), "s", parts)
        s = known["s"] if schedule is None else schedule
        problem = what.hold_out(HELD_OUT) if is_held_out else what
        if isinstance(controller, Budget):
            problem = in_usual_precision(problem, known["prior"])
        target = Target(problem, known["tau"], known["sigma"], s, known["prior"])
    asked = renamed_settings(given)
    for one in fields(Settings):
        if one.name in known and one.name not in asked:
            asked[one.name] = _setting(one.name, known[one.name], parts)
    return RunIdentity(target, settings_of(asked).checked(target), controller)


def _classes() -> dict[str, type]:
    """The parts of runs that the library has, by their names."""
    spaces = (acceptance, moves, scan, exchange, control, until)
    found = [value for space in spaces for value in vars(space).values() if isinstance(value, type)]
    return {one.__qualname__: one for one in (*found, Converged, Ramp, Steps) if is_dataclass(one)}


def _setting(name: str, value: Any, parts: Mapping[str, type]) -> Any:
    """One of `Settings`, of what a description says of it."""
    if name == "observe":
        require(
            not value, f"observe must be given again, functions named {', '.join(value or ())}, got none; pass them."
        )
        return {}
    return _made(value, "example_weights" if name == "scores" else name, parts)


def _made(value: Any, name: str, parts: Mapping[str, type]) -> Any:
    """A part of a run, of the plain values that describe it."""
    if isinstance(value, list):
        return tuple(_made(one, name, parts) for one in value)
    if not isinstance(value, dict):
        require(
            value != "a function",
            f"{name} must be given again, a function that the directory cannot hold, got none; pass the Target.",
        )
        return value
    kind = parts.get(str(value.get("type")))
    if kind is None:
        raise InputError(
            f"{name} must be given again, since it is no part of the library ({value.get('type', 'an array')}), got "
            f"none; pass {name}=..., or call sample or train as before with resume=True."
        )
    own = {one.name: _made(value[one.name], name, parts) for one in fields(kind) if one.init and one.name in value}
    return kind(**own)
