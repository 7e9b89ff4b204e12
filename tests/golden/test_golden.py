"""Runs give what they gave: decisions exactly, losses and paths to rounding."""

import json
import lzma
from pathlib import Path

import pytest

from tests.golden import cases

BEFORE = json.loads(lzma.decompress((Path(__file__).parent / "results.json.xz").read_bytes()))


@pytest.mark.parametrize("name", cases.CASES)
def test_a_run_is_as_it_was(name):
    if not cases.is_runnable(name):
        pytest.skip("this machine cannot run the native kernel at this level")
    assert not cases.differences(BEFORE[name], cases.result(name))


def test_a_run_that_is_stopped_and_resumed_is_the_one_that_is_not():
    assert BEFORE["stopped and resumed"]["sha256"] == BEFORE["penalty"]["sha256"]


def test_levels_that_fuse_multiply_adds_give_the_same_bits():
    assert BEFORE[cases.NATIVE["avx512"]]["sha256"] == BEFORE[cases.NATIVE["avx2"]]["sha256"]


@pytest.mark.parametrize(("group", "column"), [("counts", "data_used"), ("numbers", "loss"), ("numbers", "path")])
def test_another_result_is_seen(group, column):
    before = BEFORE["penalty"]
    now = json.loads(json.dumps(before))
    now[group][column][0][0] += 1 if group == "counts" else 1e-3
    assert cases.differences(before, now) == [column]
    del now[group][column]
    assert cases.differences(before, now) == [column]
