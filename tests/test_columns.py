"""One table of columns: records of all kinds of runs, summaries, pages and the documentation follow it.

``python -m tests.test_columns`` writes the table of the documentation.
"""

from pathlib import Path

import numpy as np
import pytest

import trajens as tj
from tests import small_run
from tests.rl.test_rl import Walk
from trajens import rl
from trajens.acceptance import Reason
from trajens.app.report.sweep_measures import QUANTITIES
from trajens.app.sweeps.results import NUMBERS
from trajens.columns import COLUMNS, DRAWS, EXCHANGE, HELD_OUT, NAMES, REASONS, STEPS, SUMMARISED, Average, When
from trajens.records import after_burn_in, chains_by_s, summarise

PAGE = Path(__file__).parent.parent / "docs" / "howto" / "storage.md"
HEAD = "| column | what it is | unit | in a summary | which runs have it |\n| --- | --- | --- | --- | --- |\n"
ERROR = ", with its standard error as `{}_stderr`"


def names_of(*kinds):
    """The columns that runs of these kinds have, in their order."""
    everyone = (When.ALWAYS, When.AUDITS, When.TUNED)
    return [column.name for column in COLUMNS if column.when in (*everyone, *kinds)]


def documented():
    """The table of the documentation."""
    lines = []
    for column in COLUMNS:
        error = ERROR.format(column.name) if column.has_error else ""
        average = "" if column.average is Average.NONE else f"{column.average.value}{error}"
        what = f"{column.heading}. {column.what}"
        lines.append(f"| `{column.name}` | {what} | {column.unit} | {average} | {column.when.value} |\n")
    return HEAD + "".join(lines)


@pytest.fixture(scope="module")
def plain():
    return small_run.sample(None)


@pytest.fixture(scope="module")
def full():
    """A run with every column: on a stream, of a loss that counts steps, with exchange."""
    problem = rl.problem(Walk(), tj.models.linear(2, 2), max_batch=8)
    target = tj.Target(problem, 3, 0.5, np.array([4.0, 8.0]), 1.0)
    settings = {"chains": 2, "burn_in": 8, "records": 4, "acceptance": tj.Penalty(4), "exchange": 2}
    return tj.sample(target, 24, observe={"mine": lambda path: path[0, 0]}, **settings)


def test_names_are_all_different_and_every_column_says_what_it_is():
    assert len(set(NAMES)) == len(NAMES) == len(COLUMNS)
    for column in COLUMNS:
        assert column.title, column
        assert column.what.endswith("."), column
        assert not column.has_error or column.average is not Average.NONE
        # What is shown somewhere needs an axis, and what is averaged there an average.
        assert column.unit or not (column.look_for or column.compare or column.sweep), column
        assert column.average is not Average.NONE or not (column.spec or column.sweep), column


def test_records_have_the_columns_of_the_table_in_its_order(plain):
    assert list(plain.records) == names_of()


def test_a_run_on_a_stream_that_counts_steps_and_exchanges_paths_has_all_columns(full):
    names = list(full.records)
    # Records of one's own stand before those of exchange.
    names.remove("mine")
    # Examples of a stream are never held out.
    assert tuple(names) == tuple(name for name in NAMES if name not in HELD_OUT)
    assert set(full.summary()["reasons"]) == set(REASONS)


@pytest.mark.parametrize(
    ("kinds", "lacking"),
    [
        ((When.STREAM,), {*STEPS, *EXCHANGE}),
        ((When.STEPS, When.STREAM), set(EXCHANGE)),
        ((When.EXCHANGE,), {*STEPS, "capped", "steps_exchanged"}),
    ],
)
def test_runs_of_other_kinds_lack_the_columns_of_the_others(kinds, lacking):
    assert set(NAMES) - set(names_of(*kinds)) == lacking | set(HELD_OUT)


def test_columns_of_reasons_are_those_of_the_acceptance_tests():
    assert tuple(reason.label for reason in Reason) == REASONS


def test_the_summary_has_an_average_of_every_column_that_has_one(full):
    summary = full.summary()
    expected = [
        name
        for column in SUMMARISED
        if column.average not in (Average.NONE, Average.COUNT) and column.name not in HELD_OUT
        for name in column.keys
    ]
    numbers = summarise(full.records, full.burn_in)
    assert [name for name in numbers if name not in ("s_effective", "reasons", "chains")] == expected
    assert numbers.keys() <= summary.keys()
    is_after, epochs = after_burn_in(full.records, full.burn_in), np.diff(full.records["epoch"], axis=1, prepend=0)
    after = {name: values[:, is_after] for name, values in full.records.items()}
    accepted, weights = after["acceptance"], epochs[:, is_after]
    assert summary["loss"] == pytest.approx(after["loss"].mean())
    assert summary["acceptance"] == pytest.approx((accepted * weights).sum() / weights.sum())
    assert summary["weight_rms"] == pytest.approx(full.records["weight_rms"][:, -1].mean())
    assert summary["steps_used"] == full.records["steps_used"][:, -1].sum()
    before = full.records["data_used"][:, np.argmax(is_after) - 1]
    assert summary["data_used"] == (full.records["data_used"][:, -1] - before).sum() > 0


def test_a_run_of_before_a_column_has_a_summary_without_it(plain):
    old = {name: values for name, values in plain.records.items() if name not in ("move_size", "data_audited")}
    found = summarise(old, plain.burn_in)
    assert found["data_audited"] == 0
    assert np.isnan(found["move_size"])
    assert not {*STEPS, *EXCHANGE} & found.keys()


def test_sweeps_and_draws_are_of_the_table():
    assert DRAWS[0] == "loss"
    assert NUMBERS[-3:] == ("epochs", "burn_in", "seconds")
    keys = {name for column in SUMMARISED for name in column.keys}
    assert set(NUMBERS[:-3]) <= keys
    by_name = {column.name: column for column in SUMMARISED}
    for quantity in QUANTITIES[:-1]:
        assert (quantity.title, quantity.y_label) == (by_name[quantity.key].heading, by_name[quantity.key].unit)
        assert quantity.key in NUMBERS


def test_records_are_after_burn_in_if_all_they_speak_of_is():
    records = {"epoch": np.array([[10, 20, 30]])}
    assert after_burn_in(records, 10).tolist() == [False, True, True]
    # A record that began before the end of burn-in is a part of it.
    assert after_burn_in(records, 15).tolist() == [False, False, True]
    assert after_burn_in({}, 0).shape == (0,)


def test_chains_are_grouped_by_all_digits_of_s_or_by_some():
    s = np.array([2.0, 1.00001, 1.0, 2.0])
    found = chains_by_s(s)
    assert [(value, chains.tolist()) for value, chains in found] == [(1.0, [2]), (1.00001, [1]), (2.0, [0, 3])]
    assert [(value, chains.tolist()) for value, chains in chains_by_s(s, 4)] == [(1.0, [1, 2]), (2.0, [0, 3])]


def test_the_documentation_has_the_table():
    assert documented() in PAGE.read_text(encoding="utf-8"), "renew it: python -m tests.test_columns"


def write():
    """Put the table into the documentation, in place of the one that is there."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(HEAD)
    after = rest.partition("\n\n")[2]
    PAGE.write_text(f"{before}{documented()}\n{after}", encoding="utf-8")


if __name__ == "__main__":
    write()
