"""View of a run at one moment, with its ensemble tried once on labelled data: all that the page says of it."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trajens.app.evaluation import EvaluationSet, is_on_episodes, load_evaluation_set, which_draws
from trajens.app.report.returns import Returned, evaluate_policies
from trajens.app.report.scales import some
from trajens.datasets import Labelled, Reading
from trajens.ensemble import CHUNK, Ensemble, RegressionScores, Scores, chosen_chains
from trajens.ensemble.uncertainty import Predictions
from trajens.errors import InputError, require
from trajens.records import has_summary
from trajens.run.advice import Finding, RunFacts, findings
from trajens.run.identity import describe_machine
from trajens.run.run import Run
from trajens.run.stored import StoredRun

INPUTS = 10_000
"""That are looked at, at most."""
_EVALUATIONS, _FEWEST = 1_000_000, 200
"""Of models on inputs, about; a long path is tried on fewer inputs, though not on fewer than this."""
_NUMBERS = 10_000_000
"""That are held at a time."""
_MEMBERS = 64
"""That are compared with each other, at most."""


@dataclass(frozen=True)
class Evaluation:
    """What an ensemble says of labelled data.

    Attributes
    ----------
    name : str
        What the data are called.
    is_fresh : bool
        Whether it was not trained on them.
    size : int
        How many there are; `x` and `y` are those that were looked at.
    models, tau : int
        In the ensemble, and in the path of one chain.
    scores : dict
        As those of `Ensemble.evaluate`.
    predictions : Predictions or None
        Of classifiers.
    mean, spread : (n,)
        Of the outputs of regressors.
    members : (m,)
        Numbers of the models that are compared, and how alike these are, `similarity` (m, m).
    classes : tuple
        Names of classes.
    reading : Reading or None
        How the data were read, where that is known.
    """

    name: str
    is_fresh: bool
    size: int
    models: int
    tau: int
    x: np.ndarray
    y: np.ndarray
    scores: dict[str, Any]
    predictions: Predictions | None
    mean: np.ndarray
    spread: np.ndarray
    members: np.ndarray
    similarity: np.ndarray
    classes: tuple[Any, ...]
    reading: Reading | None

    @property
    def where(self) -> str:
        """On what, in words."""
        count = (
            f"{len(self.y):,}" if len(self.y) == self.size else f"an even choice of {len(self.y):,} of {self.size:,}"
        )
        return f"{count} examples of {self.name}"


def evaluate_run(
    stored: StoredRun, data: Path | None = None, chain: int | str | None = None, draws: bool | None = None
) -> Evaluation:
    """The ensemble of a run on a file, on its test set or on its training data; refused where it has no network."""
    return evaluate(load_evaluation_set(stored, data, chain, draws), stored.paths.shape[1])


def evaluate(found: EvaluationSet, tau: int) -> Evaluation:
    """An ensemble, of paths of tau models, on labelled data."""
    ensemble, labelled, name, is_fresh, noise = found
    size, models = len(labelled.y), len(ensemble.path)
    kept = some(size, min(INPUTS, max(_EVALUATIONS // models, _FEWEST)))
    x, y = np.asarray(labelled.x)[kept], np.asarray(labelled.y)[kept]
    outputs = ensemble.model.outputs
    scores: Scores | RegressionScores
    scores = Scores(models, outputs) if ensemble.is_classifier else RegressionScores(models, noise)
    y = scores.labels(y, len(x))
    members, chosen = some(models, _MEMBERS), []
    for place, part in ensemble.parts(x, max(1, min(CHUNK, _NUMBERS // (models * outputs)))):
        scores.add(part, y[place])
        chosen.append(part[members].argmax(-1) if ensemble.is_classifier else part[members])
    answers, is_classes = np.concatenate(chosen, axis=1), isinstance(scores, Scores)
    names = None if ensemble.reading is None else ensemble.reading.label.classes
    return Evaluation(
        name=name,
        is_fresh=is_fresh,
        size=size,
        models=models,
        tau=tau,
        x=x,
        y=y,
        scores=scores.result(),
        predictions=scores.predictions if isinstance(scores, Scores) else None,
        mean=np.zeros(0) if isinstance(scores, Scores) else scores.mean,
        spread=np.zeros(0) if isinstance(scores, Scores) else scores.spread,
        members=members,
        similarity=_agreement(answers) if is_classes else _correlation(answers),
        classes=names or tuple(range(outputs)),
        reading=ensemble.reading,
    )


def _agreement(answers: np.ndarray) -> np.ndarray:
    """Share of inputs on which two models choose the same class, of all pairs."""
    return np.array([(answers == one).mean(1) for one in answers])


def _correlation(answers: np.ndarray) -> np.ndarray:
    """Of what two models say; NaN of one that says the same of all inputs."""
    centred = answers - answers.mean(1, keepdims=True)
    size = np.sqrt((centred**2).sum(1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(centred @ centred.T / np.outer(size, size))


_TRIES, _PAUSE = 3, 0.2


class Remembered(NamedTuple):
    """What a page says of a run that is in memory only, by the names that a `StoredRun` has for it."""

    identity: dict[str, Any]
    sessions: list[dict[str, Any]]
    seconds: float
    config: dict[str, Any] | None = None


@dataclass(frozen=True)
class RunView:
    """A run at one moment.

    Attributes
    ----------
    name : str
        What it is called on the page.
    stored : StoredRun or Remembered
    facts : RunFacts
    findings : list of Finding
    summary : dict or None
        Averages after burn-in, where there are some.
    evaluation : Evaluation or None
        Its ensemble on labelled data; None where it cannot be tried, and `why`.
    returned : Returned or None
        Its policies in fresh episodes, of a run on episodes.
    """

    name: str
    stored: StoredRun | Remembered
    facts: RunFacts
    findings: list[Finding]
    summary: dict[str, Any] | None
    evaluation: Evaluation | None
    why: str
    returned: Returned | None = None


def load_view(
    path: Path, data: Path | None = None, chain: int | str | None = None, draws: bool | None = None
) -> RunView:
    """The run in a directory, which may go on meanwhile.

    Parameters
    ----------
    path : Path
    data : Path, optional
        Labelled data to try it on; these must be readable. Default its test set, or what it was trained on, if that is
        to be had.
    chain : int or str
        Whose path is tried, from 0, "s=X" or "all"; default all, where they are of one s.
    draws : bool, optional
        Try all paths after burn-in that were kept, or the last ones; default some of those that were kept, if any.
    """
    stored, facts = _read(path)
    if chain is not None:
        chosen_chains(chain, stored.chains, stored.s)
    summary = stored.summary() if has_summary(facts.records, facts.burn_in) else None
    found, episodes, why = None, None, ""
    if is_on_episodes(stored):
        require(data is None, f"data must be left out with a run on episodes, got '{data}'; leave it out.")
        episodes = evaluate_policies(stored, chain, draws)
    else:
        try:
            found = evaluate_run(stored, data, chain, draws)
        except InputError as error:
            if data is not None or draws:
                raise
            why = f"The ensemble was not tried on data: {error}"
    return RunView(
        name=path.resolve().name,
        stored=stored,
        facts=facts,
        findings=findings(facts, path),
        summary=summary,
        evaluation=found,
        why=why,
        returned=episodes,
    )


def view_of(run: Run, name: str, labelled: Labelled | None = None, draws: bool | None = None) -> RunView:
    """The view of a run in memory, with its ensemble on labelled data where these are given."""
    facts, found = RunFacts.of(run), None
    if labelled is not None:
        is_drawn, most = which_draws(run, draws)
        ensemble = Ensemble.from_draws(run, most=most) if is_drawn else Ensemble.from_run(run)
        found = evaluate(EvaluationSet(ensemble, labelled, "the data given", is_fresh=True), run.target.tau)
    return RunView(
        name=name,
        stored=Remembered(
            dict(json.loads(json.dumps(run.description))), [describe_machine(run.target.problem)], run.seconds
        ),
        facts=facts,
        findings=findings(facts, None if run.out is None else run.out.path),
        summary=run.summary() if has_summary(facts.records, facts.burn_in) else None,
        evaluation=found,
        why="" if found else "The ensemble was not tried on data: none were given; give x and y.",
    )


def _read(path: Path) -> tuple[StoredRun, RunFacts]:
    """A run and its records, of one checkpoint: one that goes on may replace the newest while it is read."""
    for _ in range(_TRIES - 1):
        try:
            stored = StoredRun(path)
            return stored, RunFacts.of(stored)
        except InputError:
            if not StoredRun(path).has_checkpoint:
                raise
            time.sleep(_PAUSE)
    stored = StoredRun(path)
    return stored, RunFacts.of(stored)
