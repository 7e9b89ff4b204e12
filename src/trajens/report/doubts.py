"""The examples that an ensemble is least sure of, as one would show them to somebody."""

from __future__ import annotations

import numpy as np

from trajens.datasets import Reading
from trajens.report import numerals
from trajens.report.html import Markup, panel, tag
from trajens.report.images import data_address, is_picture, picture
from trajens.report.trial import Trial

_PICTURES, _ROWS = 16, 12
_FEATURES, _CLASSES = 8, 3
"""That are shown of an example at most."""


def doubts(trial: Trial) -> list[Markup]:
    """One panel of the examples in doubt: of classifiers where models disagree most, of regressors where errors are."""
    is_image = is_picture(trial.x.shape[1:])
    most = _PICTURES if is_image else _ROWS
    if trial.said is not None:
        said = trial.said
        order = np.lexsort((-said.entropies.total, -said.disagreement))[:most]
        cards = [_card(trial, int(i), _answers(trial, int(i))) for i in order]
        caption = (
            "Where most pairs of models disagree; bars are mean probabilities. Look for inputs you would hesitate "
            "about yourself, and for labels that are wrong."
        )
    else:
        order = np.argsort(-np.abs(trial.y - trial.mean), kind="stable")[:most]
        cards = [_card(trial, int(i), _number(trial, int(i))) for i in order]
        caption = "The largest errors. Look for labels that are wrong, and for a kind of input that is always off."
    body = tag("div", *cards, class_="doubts pictures" if is_image else "doubts")
    return [panel("doubts", "Examples in doubt", body, caption)]


def _card(trial: Trial, place: int, answer: Markup) -> Markup:
    return tag("div", _input(trial, place), answer, class_="doubt")


def _answers(trial: Trial, place: int) -> Markup:
    """The label, the vote and the most probable classes of one input."""
    assert trial.said is not None
    said, names = trial.said, trial.classes
    label, vote, mean = int(trial.y[place]), int(said.vote[place]), said.mean[place]
    is_right = label == vote
    words = tag("p", "label ", tag("b", names[label]), ", vote ", tag("b", names[vote]), _mark(is_right), class_="said")
    bars = [
        tag(
            "li",
            tag("span", names[k], class_="class"),
            tag("span", tag("i", style=f"width:{100 * mean[k]:.0f}%"), class_="probability"),
            tag("span", f"{mean[k]:.0%}", class_="share"),
        )
        for k in np.argsort(-mean, kind="stable")[:_CLASSES]
    ]
    return tag("div", words, tag("ul", *bars, class_="chances"), class_="answer")


def _mark(is_right: bool) -> Markup:
    return tag("span", " right" if is_right else " wrong", class_="right" if is_right else "wrong")


def _number(trial: Trial, place: int) -> Markup:
    mean, spread = float(trial.mean[place]), float(trial.spread[place])
    label = float(trial.y[place])
    words = tag(
        "p", "label ", tag("b", numerals.number(label)), ", mean ", tag("b", numerals.number(mean)), class_="said"
    )
    more = tag("p", f"spread {numerals.number(spread)}, off by {numerals.number(label - mean)}", class_="small")
    return tag("div", words, more, class_="answer")


def _input(trial: Trial, place: int) -> Markup:
    value = trial.x[place]
    if is_picture(value.shape):
        return tag("img", src=data_address(picture(value)), alt=f"Input in doubt, label {_label(trial, place)}")
    rows = features(value, trial.reading)
    shown = [tag("li", tag("span", name, class_="feature"), " ", tag("b", text)) for name, text in rows[:_FEATURES]]
    if len(rows) > _FEATURES:
        shown.append(tag("li", f"and {len(rows) - _FEATURES} more"))
    return tag("ul", *shown, class_="features")


def _label(trial: Trial, place: int) -> str:
    return str(trial.classes[int(trial.y[place])]) if trial.said is not None else numerals.number(trial.y[place])


def features(value: np.ndarray, reading: Reading | None) -> list[tuple[str, str]]:
    """Names and values of one input as they were in the data: without scale, and categories by their level."""
    flat = value.ravel().astype(float)
    if reading is None or not reading.features:
        return [(f"x{k}", numerals.number(one)) for k, one in enumerate(flat.tolist())]
    found, at = [], 0
    for k, feature in enumerate(reading.features):
        name = feature.name or f"x{k}"
        if feature.levels is not None:
            found.append((name, feature.levels[int(flat[at : at + len(feature.levels)].argmax())]))
            at += len(feature.levels)
            continue
        is_scaled = reading.is_standardised and feature.std > 0
        found.append((name, numerals.number(feature.mean + feature.std * flat[at] if is_scaled else flat[at])))
        at += 1
    return found
