"""Runs of a sweep as they would be found, with numbers that are made up from their options."""

import math

from trajens.app.sweeps.directory import Outcome, TaskState
from trajens.app.sweeps.results import RunRow


def look(state=TaskState.COMPLETE, sentence="", chains=4, accuracy=None, **options):
    """A run whose loss is 10 seed + s / tau, and a hundredth of that its error over chains."""
    name = ",".join(f"{key}={value}" for key, value in sorted(options.items()))
    loss = 10.0 * options.get("seed", 0) + options.get("s", 1.0) / options.get("tau", 1)
    summary = {
        **{"loss": loss, "loss_stderr": loss / 100 if chains > 1 else math.nan, "chains": chains, "epochs": 7},
        **{"acceptance": 0.3, "acceptance_stderr": 0.01, "batch_size": 50.0, "batch_size_stderr": 2.0},
        **{"tilt_error": math.nan, "tilt_error_stderr": math.nan},
    }
    if accuracy is not None:
        summary |= {"vote_accuracy": accuracy, "vote_accuracy_stderr": 0.01}
    return RunRow(
        name, Outcome(state, sentence), options, options.get("s"), summary if state is TaskState.COMPLETE else {}
    )


def some_that_failed(runs):
    """The same, of which one failed, one is at work, with averages so far, and one waits."""
    failed, running, waiting = (
        Outcome(TaskState.FAILED, "a sentence with <b>"),
        Outcome(TaskState.RUNNING, "here"),
        TaskState.WAITING,
    )
    changed = [runs[0]._replace(outcome=failed, summary={}), runs[1]._replace(outcome=running)]
    return [*changed, *(run._replace(outcome=Outcome(waiting), summary={}) for run in runs[2:3]), *runs[3:]]
