"""``trajens evaluate`` and ``picture``: what the ensemble of a run is worth, on labelled data or in fresh episodes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trajens.app.cli.environment import use_all_cores
from trajens.app.cli.streams import finite
from trajens.app.evaluation import (
    MODELS,
    WORDS,
    acting,
    inputs,
    is_on_episodes,
    load_ensemble,
    load_evaluation_set,
    noise_of,
    read_labelled,
)
from trajens.app.kinds import as_number, whole
from trajens.ensemble import Ensemble, Scores, calibrated_scores, ood_scores
from trajens.ensemble.uncertainty import detection_scores
from trajens.errors import require
from trajens.rl.evaluation import EPISODES
from trajens.run.stored import StoredRun


def evaluate_returns(
    sources: list[Path], given: dict[str, Any], which: dict[str, Any], episodes: str | None, as_json: bool
) -> None:
    """Print the returns of the policies of a run; `which` are chain and draws, what else was `given` is refused."""
    require(len(sources) == 1, f"one run on episodes can be evaluated at a time, got {len(sources)}; give one.")
    for name, value in given.items():
        require(value is None, f"{name} must be left out with a run on episodes, got {value}; leave it out.")
    found = acting(sources[0], **which)
    count = EPISODES if episodes is None else whole("episodes", episodes)
    returns = found.scores(count)
    name = found.episodes.environment.name
    if as_json:
        scores: dict[str, Any] = {how: score._asdict() for how, score in returns.items()}
        print_json({"environment": name, "models": len(found.path), "episodes": count, "returns": scores})
        return
    models = "1 model" if len(found.path) == 1 else f"{len(found.path)} models"
    table = Table(title=f"{models} in {count:,} fresh episodes of {escape(name)}")
    for heading in ("", "return", "standard error", "steps"):
        table.add_column(heading, justify="left" if not heading else "right")
    for how, score in returns.items():
        table.add_row(WORDS[how], f"{score.mean:.2f}", f"{score.stderr:.2f}", f"{score.steps:.1f}")
    Console().print(table)


def print_json(numbers: dict[str, Any]) -> None:
    """One JSON object."""
    typer.echo(json.dumps(finite(numbers), allow_nan=False))


Rows = Iterator[tuple[str, str]]

CHAIN = Annotated[
    str | None,
    typer.Option(
        metavar="N|s=X|all",
        help="Which chains of a run: one, from 0; those of one s; or all, whatever their s.",
        show_default="all, which must be of one s",
    ),
]
DRAWS = Annotated[
    bool | None,
    typer.Option(
        "--draws/--last",
        help="Use all paths after burn-in that were kept, or the last ones only.",
        show_default=f"{MODELS} models of kept paths, if there are some",
    ),
]
SOURCES = Annotated[
    list[Path],
    typer.Argument(
        metavar="DIR|FILE...",
        help="Directory of a run, or a file of trajens export; several make one ensemble.",
        show_default=False,
    ),
]
DATA = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Labelled data.", show_default="MNIST's test set, or the run's data"),
]
_CLASSIFIER = {
    "accuracy": {
        "vote_accuracy": "accuracy of the vote",
        "mean_accuracy": "accuracy of the mean probabilities",
        "single_accuracy": "mean accuracy of single models",
    },
    "probabilities": {
        "nll": "negative log-likelihood",
        "brier": "Brier score",
        "brier_reliability": "  its reliability, 0 is best",
        "brier_resolution": "  its resolution, more is better",
        "brier_uncertainty": "  its uncertainty, of the labels",
    },
    "calibration, 15 bins": {
        "ece": "expected calibration error, equal-mass bins",
        "ece_equal_width": "expected calibration error, bins of equal width",
        "mce": "largest calibration error, equal-mass bins",
    },
    "uncertainty, in nats": {
        "entropy": "entropy of the mean probabilities",
        "expected_entropy": "  of single models, expected",
        "mutual_information": "  what they disagree on, mutual information",
        "disagreement": "disagreement of two models",
    },
    "answering the surest only": {
        "risk_at_90": "error rate among the surest 90 %",
        "aurc": "mean error rate over all coverages (AURC)",
    },
}
_REGRESSOR = {
    "error": {
        "rmse": "root mean squared error of the mean",
        "single_rmse": "root mean squared error of single models, mean",
        "r2": "R^2, share of the variance explained",
    },
    "uncertainty": {
        "spread": "spread of the models, root mean square",
        "nll": "negative log-likelihood, normal",
        "coverage_68": "labels in the central 68 %",
        "coverage_95": "labels in the central 95 %",
    },
}
_CALIBRATED = {
    "temperature": "temperature (above 1: was too sure)",
    "nll": "negative log-likelihood without it",
    "tempered_nll": "negative log-likelihood with it",
    "ece": "expected calibration error without it",
    "tempered_ece": "expected calibration error with it",
    "coverage": "labels in conformal sets of 90 %",
    "set_size": "classes in such a set, mean",
}
_DOUBTS = {
    "confidence": "1 - probability of the class",
    "entropy": "entropy",
    "mutual_information": "mutual information",
    "disagreement": "disagreement",
    "spread": "spread of the models",
}


def evaluate(
    sources: SOURCES,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Labelled data. Given twice, the second set is from outside of the distribution and needs no labels: "
            "how well are the two distinguished?",
            show_default="MNIST's test set, or the run's data",
        ),
    ] = None,
    chain: CHAIN = None,
    draws: DRAWS = None,
    noise: Annotated[
        str | None,
        typer.Option(
            metavar="X",
            help="Regression: standard deviation of the labels around the true function, which the likelihood and the "
            "intervals add to the spread of the models.",
            show_default="none",
        ),
    ] = None,
    episodes: Annotated[
        str | None,
        typer.Option(metavar="N", help="Of a run on episodes: how many fresh ones.", show_default=str(EPISODES)),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Accuracy or error, likelihood, calibration and uncertainty of an ensemble on labelled data.

    Of a run on episodes: returns, with their errors, of single models and of the ensemble, in fresh episodes.
    """
    use_all_cores()
    which = {"chain": chain, "draws": draws}
    if is_on_episodes(sources[0]):
        evaluate_returns(sources, {"data": data, "noise": noise}, which, episodes, as_json)
        return
    require(
        episodes is None or not sources[0].exists(),
        f"episodes must be left out with a run on data, got {episodes}; leave it out.",
    )
    files = data or []
    require(len(files) <= 2, f"data must be given once, or twice for data from outside, got {len(files)}; leave some.")
    ensemble, given, name, known = _joined(sources, files[0] if files else None, which)
    outside = inputs(ensemble, files[1]) if len(files) == 2 else None
    message = f"noise must be a number >= 0, got {noise!r}; leave it out for that of the held-out examples."
    level = known if noise is None else as_number(noise, message)
    found = ensemble.scored(given.x, given.y, level, progress=True)
    scores: dict[str, Any] = {**found.result(), "data": name, "examples": len(given.y)}
    groups = list(_groups(scores, ensemble.is_classifier))
    if isinstance(found, Scores) and len(given.y) > 1:
        scores["calibrated"] = calibrated_scores(found.predictions, found.y)
        groups.append((_halved(scores["calibrated"]), _worded(_CALIBRATED, scores["calibrated"], ".4f")))
    if outside is not None:
        if isinstance(found, Scores):
            scores["outside"] = ood_scores(found.predictions, ensemble.summarise_predictions(outside, progress=True))
        else:
            spread = found.spread, ensemble.predict(outside, return_std=True, progress=True)[1]
            scores["outside"] = {"spread": detection_scores(*spread)}
        groups.append((f"telling {len(outside):,} inputs of {files[1].name} from these", _told(scores["outside"])))
    if as_json:
        print_json(scores)
        return
    table = Table(
        title=f"{len(ensemble.path)} models on {len(given.y):,} examples of {escape(name)}", show_header=False
    )
    table.add_column()
    table.add_column(justify="right")
    for title, rows in groups:
        table.add_row(f"[bold]{escape(title)}[/bold]", "")
        for words, text in rows:
            table.add_row("  " + words, text)
        table.add_section()
    Console().print(table)


def picture(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory of a run.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Picture to write.", show_default="picture.png in DIR")
    ] = None,
    data: DATA = None,
    chain: CHAIN = None,
    draws: DRAWS = None,
) -> None:
    """Draw a run: loss, acceptance and batch, accuracy against members, and what the members disagree on.

    For a regression: the error against members, and predictions against the truth. Of a run on episodes: the return
    against steps of the environment, episodes per decision against s, and single models beside the ensemble.
    """
    from trajens.app.picture import draw, draw_returns

    use_all_cores()
    stored = StoredRun(directory)
    if is_on_episodes(stored):
        require(data is None, f"data must be left out with a run on episodes, got '{data}'; leave it out.")
        file = directory / "picture.png" if out is None else out
        draw_returns(file, stored, acting(stored, chain, draws), chain)
        typer.echo(f"wrote {file}")
        return
    ensemble, given, name, *_ = load_evaluation_set(stored, data, chain, draws)
    file = directory / "picture.png" if out is None else out
    draw(file, stored, ensemble, given, name, chain)
    typer.echo(f"wrote {file}")


def _joined(sources: list[Path], data: Path | None, which: dict[str, Any]) -> tuple[Ensemble, Any, str, float | None]:
    """One ensemble of all sources, data with labels, what they are called, and the noise of labels if it is known."""
    if data is None:
        first, given, name, _, noise = load_evaluation_set(sources[0], None, **which)
        return Ensemble.join([first, *(load_ensemble(source, **which) for source in sources[1:])]), given, name, noise
    ensemble = Ensemble.join(load_ensemble(source, **which) for source in sources)
    return ensemble, read_labelled(ensemble, data), data.name, noise_of(sources[0], ensemble)


def _groups(scores: dict[str, Any], is_classifier: bool) -> Iterator[tuple[str, Rows]]:
    """The scores in words, those by members for powers of two and for all."""
    groups, by_members, label, form = (
        (_CLASSIFIER, scores["accuracy_by_members"], "accuracy of the vote of {}", ".4f")
        if is_classifier
        else (_REGRESSOR, scores["rmse_by_members"], "error of the mean of {}", ".4g")
    )
    for title, labels in groups.items():
        yield title, _worded(labels, scores, form)
    some = sorted({2**k for k in range(20) if 2**k < len(by_members)} | {len(by_members)})
    yield "by members", ((label.format(n), format(by_members[n - 1], form)) for n in some)


def _worded(labels: dict[str, str], scores: dict[str, Any], form: str) -> Rows:
    return ((words, format(scores[name], form)) for name, words in labels.items())


def _halved(calibrated: dict[str, float]) -> str:
    return f"calibrated on a random half, tried on the other {calibrated['examples']:,}"


def _told(outside: dict[str, dict[str, float]]) -> Rows:
    for name, found in outside.items():
        yield f"AUROC by {_DOUBTS[name]}, 1 is best", format(found["auroc"], ".4f")
        yield "  false alarms where 95 % are found (FPR95)", format(found["fpr95"], ".4f")
