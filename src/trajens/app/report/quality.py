"""Quality of an ensemble: by the number of its members, how sure it is, how they differ, and what it is unsure of."""

from __future__ import annotations

import numpy as np

from trajens.app.report import numerals
from trajens.app.report.chart import Chart, Series
from trajens.app.report.heat_map import SIDE, HeatMap, data_address, is_picture, picture
from trajens.app.report.html import Markup, left_out, panel, tag
from trajens.app.report.run_view import Evaluation
from trajens.app.report.scales import POINTS, some
from trajens.datasets import Reading
from trajens.ensemble.uncertainty import Predictions, reliability


def matrix(values: np.ndarray, names: np.ndarray, title: str, words: str) -> Markup:
    """A matrix with the names of its rows and columns; `words` are "{a}", "{b}" and "{v}" in a sentence."""
    # Everyone is like himself, which would take the colours from the others.
    others = values[~np.eye(len(values), dtype=bool)]
    finite = others[np.isfinite(others)]
    if finite.size == 0 or finite.min() == finite.max():
        finite = np.append(finite, [0.0, 1.0])
    low, high = float(finite.min()), float(finite.max())
    told = [["-" if not np.isfinite(v) else f"{100 * v:.4g}" for v in row] for row in values]
    labels = [str(name) for name in names]
    return HeatMap(
        title=title,
        values=values,
        rows=labels,
        columns=labels,
        told=told,
        x_label="member",
        y_label="member",
        low=low,
        high=high,
        words=words,
        shown=numerals.percent,
        width=SIDE,
    ).svg()


_BINS = 10


def panels(evaluation: Evaluation) -> list[Markup]:
    """All that can be drawn of it."""
    own = (
        _of_classes(evaluation, evaluation.predictions)
        if evaluation.predictions is not None
        else _of_numbers(evaluation)
    )
    return [by_members([(evaluation.name, evaluation)]), *own, *_of_members(evaluation)]


def by_members(several: list[tuple[str, Evaluation]], is_compared: bool = False) -> Markup:
    """How good the first 1, 2, .. members are together: of several ensembles, or of one beside what one model is."""
    is_classes = several[0][1].predictions is not None
    key, name = (
        ("accuracy_by_members", "accuracy of the vote") if is_classes else ("rmse_by_members", "error of the mean")
    )
    title = f"{name[0].upper()}{name[1:]} against members"
    place = "members" if is_classes else "errors"
    if max(evaluation.models for _, evaluation in several) < 2:
        return left_out(place, title, "There is a single member.")
    lines: list[tuple[float, str]] = []
    if not is_compared:
        scores, several = several[0][1].scores, [(name, several[0][1])]
        lines = [(scores["single_accuracy" if is_classes else "single_rmse"], "one model, mean")]
        lines += [(scores["mean_accuracy"], "mean probabilities of all")] if is_classes else []
    chart = Chart(
        f"{name} against members",
        "members 1, …, n of the path",
        name if is_classes else f"{name} (units of labels)",
        [
            Series(label, np.arange(1.0, evaluation.models + 1), np.array(evaluation.scores[key]), look=k)
            for k, (label, evaluation) in enumerate(several)
        ],
        x_range=(1.0, max(float(evaluation.models) for _, evaluation in several)),
        x_whole=True,
        y_shown=numerals.short_percent if is_classes else numerals.short,
        y_told=numerals.percent if is_classes else numerals.number,
        lines=lines,
    )
    way = "rises" if is_classes else "falls"
    caption = f"Look for a curve that {way} and levels off: members help each other, and more would not help further."
    return panel(place, title, chart.svg(), caption)


def _of_classes(evaluation: Evaluation, predictions: Predictions) -> list[Markup]:
    is_right = predictions.is_right(evaluation.y)
    return [
        _reliability(predictions, is_right, evaluation.scores["ece"]),
        _histogram(
            "disagreement",
            "Disagreement",
            "share of pairs of models that disagree",
            predictions.disagreement,
            is_right,
        ),
        _histogram(
            "information",
            "Mutual information",
            "mutual information (nats)",
            predictions.entropies.mutual_information,
            is_right,
        ),
    ]


def _reliability(predictions: Predictions, is_right: np.ndarray, error: float) -> Markup:
    bins = reliability(predictions.confidence, is_right)
    half = np.sqrt(bins.accuracy * (1 - bins.accuracy) / np.maximum(bins.weight * len(is_right), 1))
    low, high = np.maximum(bins.accuracy - half, 0), np.minimum(bins.accuracy + half, 1)
    start = max(0.0, np.floor(10 * min(bins.confidence.min(), low.min()) - 0.2) / 10)
    chart = Chart(
        "Reliability diagram",
        "confidence (mean probability of the answer)",
        "share that is right",
        [Series("bins of equally many answers, with their error", bins.confidence, bins.accuracy, low, high, True)],
        x_range=(start, 1.0),
        y_range=(start, 1.0),
        x_shown=numerals.short_percent,
        y_shown=numerals.short_percent,
        x_told=numerals.percent,
        y_told=numerals.percent,
        is_diagonal=True,
    )
    title = f"Reliability: calibration error {numerals.percent(error)}"
    caption = "Look for points on the diagonal: below it the ensemble is too sure of itself, above it not sure enough."
    return panel("reliability", title, chart.svg(), caption)


def _histogram(name: str, title: str, x_label: str, values: np.ndarray, is_right: np.ndarray) -> Markup:
    """Shares of right and of wrong answers, each of its own total."""
    top = float(values.max())
    if not top > 0:
        return left_out(name, title, "It is 0 for every input: all models say the same.")
    edges = np.linspace(0, top, _BINS + 1)
    series = []
    for look, (label, is_meant) in enumerate((("right answers", is_right), ("wrong answers", ~is_right))):
        if is_meant.any():
            share = np.histogram(values[is_meant], edges)[0] / is_meant.sum()
            middle = (edges[1:] + edges[:-1]) / 2
            series.append(Series(f"{label} ({is_meant.sum():,})", middle, share, look=look, is_stairs=True))
    chart = Chart(
        title,
        x_label,
        "share of inputs",
        series,
        x_range=(0.0, top),
        y_shown=numerals.short_percent,
        y_told=numerals.percent,
        holds=(0.0,),
    )
    means = ", ".join(
        f"{values[is_meant].mean():.3g} of {label}"
        for label, is_meant in (("right", is_right), ("wrong answers", ~is_right))
        if is_meant.any()
    )
    caption = f"Means: {means}. Look for wrong answers further to the right: the ensemble knows when it may be wrong."
    return panel(name, title, chart.svg(), caption)


def _of_numbers(evaluation: Evaluation) -> list[Markup]:
    few = some(len(evaluation.y), POINTS)
    y, mean, spread = evaluation.y[few], evaluation.mean[few], evaluation.spread[few]
    ends = float(min(y.min(), mean.min())), float(max(y.max(), mean.max()))
    room = 0.04 * max(ends[1] - ends[0], 1e-9)
    both = (ends[0] - room, ends[1] + room)
    truth = Chart(
        "Predictions against labels",
        "label",
        "mean of the models",
        [Series("examples", y, mean, is_points=True)],
        x_range=both,
        y_range=both,
        is_diagonal=True,
        is_cloud=True,
    )
    error = np.abs(y - mean)
    doubt = Chart(
        "Error against spread",
        "spread of the models (units of the labels)",
        "|label - mean|",
        [Series("examples", spread, error, is_points=True)],
        holds=(0.0,),
        is_diagonal=True,
        is_cloud=True,
    )
    inside = numerals.percent(evaluation.scores["coverage_68"])
    return [
        panel(
            "truth",
            "Predictions against the truth",
            truth.svg(),
            "Both in the units of the labels. Look for points about the diagonal, without a bend or a fan.",
        ),
        panel(
            "spread",
            "Error against spread",
            doubt.svg(),
            f"The line is error = spread; {inside} of all labels are below it. Look for about 68 %: fewer mean that "
            "the models alone know too little of the noise of the labels.",
        ),
    ]


def _of_members(evaluation: Evaluation) -> list[Markup]:
    """How alike two members are, and how that falls with their distance along the path."""
    if len(evaluation.members) < 2:
        return [left_out("similarity", "Similarity of members", "There is a single member.")]
    is_classes = evaluation.predictions is not None
    what = "two members choose the same class" if is_classes else "correlation of the outputs of two members"
    words = "members {a} and {b}: " + ("agree on {v} % of inputs" if is_classes else "correlation {v} %")
    count = len(evaluation.members)
    some = "" if count == evaluation.models else f" {count} of {evaluation.models} members, evenly chosen."
    caption = (
        f"{'Share of inputs on which' if is_classes else 'The'} {what}.{some} Look for a bright diagonal that fades: "
    )
    caption += "distant members are others, which is what makes their vote worth more."
    square = panel(
        "similarity",
        "Similarity of members along the path",
        matrix(evaluation.similarity, evaluation.members, f"Matrix: {what}", words),
        caption,
    )
    apart, alike = _by_distance(evaluation)
    chart = Chart(
        "Similarity against distance",
        "distance along the path (members)",
        "agreement" if is_classes else "correlation",
        [Series("mean over pairs", apart, alike)],
        x_whole=True,
        y_shown=numerals.short_percent,
        y_told=numerals.percent,
    )
    if len(apart) < 2:
        return [square]
    fall = panel(
        "distance",
        "Similarity against distance",
        chart.svg(),
        "Mean over pairs of members so far apart. Look for a clear fall; a flat line says that the path is short.",
    )
    return [square, fall]


def _by_distance(evaluation: Evaluation) -> tuple[np.ndarray, np.ndarray]:
    """Distances along a path, and the mean similarity of the members that are about so far apart."""
    members, places = evaluation.members, np.arange(len(evaluation.members))
    # Members of different chains have no distance along a path.
    is_pair = (members[:, None] // evaluation.tau == members // evaluation.tau) & np.isfinite(evaluation.similarity)
    apart = np.where(is_pair, np.abs(places[:, None] - places), 0)
    # Of a long path some members are compared, whose distances are whole numbers only about evenly.
    pairs = [apart == steps for steps in np.unique(apart[apart > 0])]
    distances = [np.abs(members[:, None] - members)[pair].mean() for pair in pairs]
    return np.array(distances), np.array([evaluation.similarity[pair].mean() for pair in pairs])


_PICTURES, _ROWS = 16, 12
_FEATURES, _CLASSES = 8, 3
"""That are shown of an example at most."""


def doubts(evaluation: Evaluation) -> list[Markup]:
    """One panel of the examples in doubt: of classifiers where models disagree most, of regressors where errors are."""
    is_image = is_picture(evaluation.x.shape[1:])
    most = _PICTURES if is_image else _ROWS
    if evaluation.predictions is not None:
        predictions = evaluation.predictions
        order = np.lexsort((-predictions.entropies.total, -predictions.disagreement))[:most]
        cards = [_card(evaluation, int(i), _answers(evaluation, int(i))) for i in order]
        caption = (
            "Where most pairs of models disagree; bars are mean probabilities. Look for inputs you would hesitate "
            "about yourself, and for labels that are wrong."
        )
    else:
        order = np.argsort(-np.abs(evaluation.y - evaluation.mean), kind="stable")[:most]
        cards = [_card(evaluation, int(i), _number(evaluation, int(i))) for i in order]
        caption = "The largest errors. Look for labels that are wrong, and for a kind of input that is always off."
    body = tag("div", *cards, class_="doubts pictures" if is_image else "doubts")
    return [panel("doubts", "Examples in doubt", body, caption)]


def _card(evaluation: Evaluation, place: int, answer: Markup) -> Markup:
    return tag("div", _input(evaluation, place), answer, class_="doubt")


def _answers(evaluation: Evaluation, place: int) -> Markup:
    """The label, the vote and the most probable classes of one input."""
    assert evaluation.predictions is not None
    predictions, names = evaluation.predictions, evaluation.classes
    label, vote, mean = int(evaluation.y[place]), int(predictions.vote[place]), predictions.mean[place]
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


def _number(evaluation: Evaluation, place: int) -> Markup:
    mean, spread = float(evaluation.mean[place]), float(evaluation.spread[place])
    label = float(evaluation.y[place])
    words = tag(
        "p", "label ", tag("b", numerals.number(label)), ", mean ", tag("b", numerals.number(mean)), class_="said"
    )
    more = tag("p", f"spread {numerals.number(spread)}, off by {numerals.number(label - mean)}", class_="small")
    return tag("div", words, more, class_="answer")


def _input(evaluation: Evaluation, place: int) -> Markup:
    value = evaluation.x[place]
    if is_picture(value.shape):
        return tag("img", src=data_address(picture(value)), alt=f"Input in doubt, label {_label(evaluation, place)}")
    rows = features(value, evaluation.reading)
    shown = [tag("li", tag("span", name, class_="feature"), " ", tag("b", text)) for name, text in rows[:_FEATURES]]
    if len(rows) > _FEATURES:
        shown.append(tag("li", f"and {len(rows) - _FEATURES} more"))
    return tag("ul", *shown, class_="features")


def _label(evaluation: Evaluation, place: int) -> str:
    return (
        str(evaluation.classes[int(evaluation.y[place])])
        if evaluation.predictions is not None
        else numerals.number(evaluation.y[place])
    )


def features(value: np.ndarray, reading: Reading | None) -> list[tuple[str, str]]:
    """Names and values of one input as they were in the data: without scale, and categories by their level."""
    flat = value.ravel().astype(float)
    if reading is None or not reading.features:
        return [(f"x{k}", numerals.number(one)) for k, one in enumerate(flat.tolist())]
    found, at = [], 0
    for k, feature in enumerate(reading.features):
        name = feature.name or f"x{k}"
        if feature.levels is not None:
            here = flat[at : at + len(feature.levels)]
            level = feature.levels[int(here.argmax())] or "missing"
            found.append((name, level if here.any() else "not in the training data"))
            at += len(feature.levels)
            continue
        is_scaled = reading.is_standardised and feature.std > 0
        found.append((name, numerals.number(feature.mean + feature.std * flat[at] if is_scaled else flat[at])))
        at += 1
    return found
