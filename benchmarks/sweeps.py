"""What a sweep costs beyond its runs: many short ones against the same by hand, and runs that do nothing.

By hand is a loop over the settings in one process with a device for every core, each run into a directory of its own:
what one would write without sweeps, with one start of Python and JAX and one compilation. Both sides are timed whole,
in turns, as processes of their own. A run that does nothing is one that is complete.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

_BY_HAND = """
import jax
jax.config.update("jax_num_cpu_devices", {cores})
from trajens.app.sweeps import Plan
from trajens.app.experiment import Experiment
for run in Plan.of({plan!r}).runs:
    Experiment(run.config).run(out=f"{out}/{{run.name}}")
"""
_NOTHING = """
import time
from trajens.app.sweeps import sweep
from trajens.app.sweeps.directory import SweepDirectory
from trajens.app.sweeps.plan import Plan
from trajens.app.sweeps.directory import Outcome, TaskState, keep_outcome
from trajens.app.sweeps.task import Task
from trajens.app.sweeps.engines.local import LocalEngine
if __name__ == "__main__":
    plan = Plan.of({plan!r})
    directory = SweepDirectory({out!r})
    directory.begin()
    for run in plan.runs:
        keep_outcome(directory, run.name, Outcome(TaskState.COMPLETE))
    begin = time.perf_counter()
    engine = LocalEngine()
    pending = [engine.submit(Task({out!r}, run.name)) for run in plan.runs]
    while any(waiting.outcome() is None for waiting in pending):
        time.sleep(0.05)
    engine.close()
    print(time.perf_counter() - begin)
"""


def main() -> None:
    """Time both, print a table and JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=40_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--nothing", type=int, default=1000, help="runs that do nothing")
    parser.add_argument("--out", type=Path, help="JSON file")
    given = parser.parse_args()
    options = {"problem": "perceptron", "epochs": given.epochs, "tau": 4, "records": 20}
    plan = {"options": options, "grid": {"seed": list(range(given.runs))}}
    cores = len(os.sched_getaffinity(0))
    times: dict[str, list[float]] = {"by hand": [], "sweep": []}
    for _ in range(given.repeats):
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder, "hand.py")
            script.write_text(_BY_HAND.format(cores=cores, plan=plan, out=f"{folder}/hand"))
            Path(folder, "hand").mkdir()
            times["by hand"].append(_timed([sys.executable, str(script)]))
            file = Path(folder, "plan.toml")
            file.write_text(_toml(plan))
            command = [sys.executable, "-m", "trajens", "sweep", "run", str(file), "--out", f"{folder}/swept"]
            times["sweep"].append(_timed(command))
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "nothing.py")
        many = {"options": options, "grid": {"seed": list(range(given.nothing))}}
        script.write_text(_NOTHING.format(plan=many, out=f"{folder}/swept"))
        nothing = float(
            subprocess.run([sys.executable, str(script)], check=True, capture_output=True, text=True).stdout
        )
    ratios = [sweep / hand for hand, sweep in zip(times["by hand"], times["sweep"], strict=True)]
    table = Table(title=f"{given.runs} runs of {given.epochs} epochs on {cores} cores")
    for heading in ("", "seconds"):
        table.add_column(heading)
    for name, found in times.items():
        table.add_row(name, ", ".join(f"{each:.1f}" for each in found))
    Console().print(table)
    print(f"ratio {statistics.median(ratios):.3f} ({', '.join(f'{ratio:.3f}' for ratio in ratios)})")
    print(f"{given.nothing} runs that do nothing, workers started and ended: {nothing:.1f} s")
    if given.out is not None:
        measured = {"runs": given.runs, "epochs": given.epochs, "cores": cores, "seconds": times}
        given.out.write_text(json.dumps({**measured, "ratios": ratios, "nothing": [given.nothing, nothing]}, indent=1))


def _timed(command: list[str]) -> float:
    """Seconds of a command."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin


def _toml(plan: dict[str, dict[str, Any]]) -> str:
    tables = (
        f"[{name}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in table.items()) for name, table in plan.items()
    )
    return "\n".join(tables)


if __name__ == "__main__":
    main()
