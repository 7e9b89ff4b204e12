"""Nothing is lost and nothing is wrong in silence: directories, locks, records, interruptions, schedules."""

import os
import subprocess
import sys

import numpy as np
import pytest

import trajens as tj
from tests.command import call
from tests.small_run import EPOCHS, StopAfter, again, assert_same, fresh, sample
from trajens.app.cli.signals import StopOnSignal
from trajens.app.resolve import resolve
from trajens.errors import InputError, StorageError
from trajens.run.advice import advice
from trajens.run.control import Budget, FixedEpochs
from trajens.run.progress import Progress, ProgressBar
from trajens.run.state import RunState
from trajens.sampling.program import Control
from trajens.storage.checkpoint import checkpoints, load, save

TARGET = tj.Target(tj.datasets.perceptron().problem(), 3, 0.1, 20.0)
SMALL = ["train", "perceptron", "--tau", "2", "--epochs", "40", "--records", "2", "--chains", "1"]


# Directories


@pytest.mark.parametrize("name", ["config.toml", "plan.json", "notes.txt", ".vscode-settings", ".a-12345678"])
def test_a_directory_with_files_of_the_user_is_not_written_to(capsys, tmp_path, name):
    (tmp_path / name).write_text("mine")
    code, _, err = call(capsys, *SMALL, "--out", str(tmp_path))
    assert (code, f"with {name} in it" in err, err.count("\n")) == (2, True, 1)
    assert (tmp_path / name).read_text() == "mine"
    assert {file.name for file in tmp_path.iterdir()} <= {name, "lock"}


def test_an_empty_name_is_no_directory(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = call(capsys, *SMALL, "--out", "")
    assert (code, "out must name a directory" in err) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed(tmp_path):
    sample(fresh(tmp_path / "a"), epochs=300, stop=StopAfter(0))
    left = tmp_path / "a" / ".checkpoint-0000000300.npz-abc123_x"
    left.write_bytes(b"half")
    sample(again(tmp_path / "a"), epochs=300)
    assert not left.exists()


def test_a_directory_that_lost_its_checkpoints_is_not_begun_again(tmp_path):
    sample(tmp_path / "a", epochs=300)
    records = (tmp_path / "a" / "records.csv").read_bytes()
    for file in checkpoints(tmp_path / "a"):
        file.unlink()
    with pytest.raises(InputError, match="must hold a checkpoint beside its records"):
        sample(again(tmp_path / "a"), epochs=300)
    assert (tmp_path / "a" / "records.csv").read_bytes() == records


def test_a_run_has_a_checkpoint_from_its_first_moment(tmp_path, small_blocks):
    seen = []
    sample(tmp_path / "a", stop=lambda: seen.append(len(checkpoints(tmp_path / "a"))) or False)
    assert seen[0] == 1


def test_records_that_are_short_go_back_to_the_older_checkpoint(tmp_path, small_blocks):
    whole = sample(None)
    sample(fresh(tmp_path / "a"), stop=StopAfter(9))
    assert len(checkpoints(tmp_path / "a")) == 2
    records = tmp_path / "a" / "records.csv"
    records.write_bytes(records.read_bytes()[:-7])
    stored = tj.StoredRun(tmp_path / "a")
    assert not stored.files.has_records()
    with pytest.warns(UserWarning, match="are cut off or damaged; going back from epoch"):
        run = sample(again(tmp_path / "a"))
    assert_same(whole, run)


def test_records_of_two_writers_are_noticed(tmp_path):
    sample(tj.RunDirectory(tmp_path / "a", checkpoint_seconds=1e9), epochs=300)
    file = tmp_path / "a" / "records.csv"
    lines = file.read_text().splitlines(keepends=True)
    chains = 4
    file.write_text("".join([lines[0], *lines[1 : chains + 1], *lines[1:]]))
    with pytest.raises(InputError, match="as they were written, got others"):
        sample(again(tmp_path / "a"), epochs=300)
    # Runs of before have no sums of their records.
    for name, arrays in {name: load(name) for name in checkpoints(tmp_path / "a")}.items():
        save(tmp_path / "a", int(name.stem[-10:]), {key: arrays[key] for key in arrays if not key.startswith("sum.")})
    with pytest.raises(InputError, match="records at the epochs of the plan"):
        sample(again(tmp_path / "a"), epochs=600)


def test_a_writer_whose_lock_was_removed_stops(tmp_path, small_blocks):
    def remove():
        (tmp_path / "a" / "lock").unlink(missing_ok=True)
        return False

    with pytest.raises(StorageError, match="lock' must stay as it is while a run writes"):
        sample(fresh(tmp_path / "a"), stop=remove)
    assert_same(sample(None), sample(again(tmp_path / "a")))


def test_an_unreadable_checkpoint_is_not_called_damaged(tmp_path, monkeypatch):
    sample(tmp_path / "a", epochs=300)

    def forbidden(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(np, "load", forbidden)
    with pytest.raises(InputError, match="Permission denied; check its permissions"):
        tj.StoredRun(tmp_path / "a").epoch  # noqa: B018


@pytest.mark.slow
def test_a_model_written_into_the_config_of_a_run_is_refused(capsys, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "data.npz", x=rng.standard_normal((60, 3)), y=rng.integers(0, 3, 60))
    out = str(tmp_path / "run")
    options = ["--hidden", "4", "--tau", "2", "--epochs", "20", "--records", "2", "--chains", "1", "--out", out]
    assert call(capsys, "train", str(tmp_path / "data.npz"), *options)[0] == 0
    config = tmp_path / "run" / "config.toml"
    right = config.read_text()
    assert call(capsys, "evaluate", out)[0] == 0
    config.write_text(right.replace('activation = "relu"', 'activation = "tanh"'))
    for command in (["evaluate", out], ["resume", out, "--epochs", "10"]):
        code, _, err = call(capsys, *command)
        assert (code, err.count("\n")) == (2, 1)
    config.write_text(right)
    assert call(capsys, "resume", out, "--epochs", "10")[0] == 0


def test_a_run_that_goes_on_elsewhere_says_that_bits_may_differ(tmp_path, monkeypatch):
    sample(fresh(tmp_path / "a"), epochs=300, stop=StopAfter(0))
    monkeypatch.setattr("jax.__version__", "9.9.9")
    with pytest.warns(UserWarning, match=r"was last run with jax .* \(now 9.9.9\): what follows may differ"):
        sample(again(tmp_path / "a"), epochs=300)


# Interruptions


def test_a_callback_that_raises_loses_nothing(tmp_path, small_blocks):
    def fails(progress):
        if progress.epoch > 300:
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        sample(fresh(tmp_path / "a"), progress=fails)
    assert tj.StoredRun(tmp_path / "a").epoch > 300
    assert_same(sample(None), sample(again(tmp_path / "a")))


def test_an_interrupt_hands_back_the_run_up_to_there(tmp_path, small_blocks):
    def interrupted(progress):
        if progress.epoch > 300:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted at epoch"):
        run = sample(fresh(tmp_path / "a"), progress=interrupted)
    assert 300 < run.epochs < EPOCHS
    assert not run.is_complete
    assert tj.StoredRun(tmp_path / "a").epoch == run.epochs
    assert_same(sample(None), sample(again(tmp_path / "a")))


def test_an_interrupt_in_memory_can_be_gone_on_from(small_blocks):
    def interrupted(progress):
        if progress.epoch > 300:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted"):
        run = sample(None, progress=interrupted)
    with pytest.warns(UserWarning, match="interrupted"):
        again = sample(None, progress=interrupted)
    assert_same(run, again)


def test_a_closed_stream_ends_no_bar(monkeypatch):
    bar = ProgressBar(100)

    def gone(*_, **__):
        raise BrokenPipeError

    monkeypatch.setattr(bar._console, "print", gone)
    bar(Progress(100, 1.0, 0.5, 0.5, 32.0, 100, 1))
    bar.close()


def test_progress_appears_on_a_dumb_terminal(monkeypatch, capsys):
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("FORCE_COLOR", "1")
    bar = ProgressBar(100)
    bar(Progress(100, 1.0, 0.5, 0.5, 32.0, 100, 1))
    bar.close()
    assert "epoch 100 of 100" in capsys.readouterr().err


def test_a_hang_up_is_a_polite_signal():
    import signal

    with StopOnSignal() as stop:
        assert not stop()
        os.kill(os.getpid(), signal.SIGHUP)
        stop._is_asked.wait(5)
        assert stop()


@pytest.mark.slow
def test_without_a_directory_a_stop_is_no_promise_to_go_on():
    command = [sys.executable, "-m", "trajens", *SMALL[:4], "--epochs", "1e8", "--records", "1000", "--chains", "1"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        for line in process.stderr:
            if "epoch" in line:
                break
        process.terminate()
        _, messages = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, messages
    assert "nothing was saved without --out" in messages


# Schedules


def test_a_schedule_that_becomes_negative_is_refused():
    target = tj.Target(TARGET.problem, 3, 0.1, lambda epoch: 50.0 - epoch)
    with pytest.raises(InputError, match=r"s\(epoch\) must be a finite number >= 0 at every epoch, got -\d+ at epoch"):
        tj.sample(target, 100, chains=2, records=4)


@pytest.mark.parametrize(
    ("s", "burn_in"),
    [
        (20.0, 20),
        (tj.schedule.exponential(1, 20, 60), 60),
        (tj.schedule.exponential(1, 20, 10), 20),
        (tj.schedule.linear(1, 20, 100), 20),
        (tj.schedule.stepped([(0, 1.0), (70, 5.0)]), 70),
        (lambda epoch: 10.0 + 0.0 * epoch, 20),
    ],
)
def test_averages_begin_when_s_has_settled(s, burn_in, monkeypatch):
    # What is decided before the first epoch needs no sampling.
    monkeypatch.setattr("trajens.run.run._go_on", lambda run, *_: run)
    run = tj.sample(tj.Target(TARGET.problem, 3, 0.1, s), 100, chains=2, records=10)
    assert run.settings.burn_in == burn_in


def test_averages_begin_when_a_schedule_of_ones_own_has_settled():
    from trajens.schedule import settled

    assert (
        500
        <= settled(lambda epoch: np.minimum(epoch, 500) * 1.0 if isinstance(epoch, int) else _ramp(epoch), 1000)
        <= 502
    )


def _ramp(epoch):
    import jax.numpy as jnp

    return jnp.minimum(epoch, 500) * 1.0


def test_the_annealing_of_the_command_line_is_left_out_of_averages():
    config = resolve({"problem": "mnist", "s": "5:50", "epochs": 1000, "anneal": 700})
    assert config.burn_in == 700
    assert resolve({"problem": "mnist", "s": "5:50", "epochs": 1000, "anneal": 2000}).burn_in == 200


# Afterwards
FIXED, BUDGET = FixedEpochs(10), Budget(1e6, 40, 3)


def finished(loss, acceptance=0.4, weight_rms=None, prior=None, chains=2, apart=0.0, controller=FIXED):
    """A run whose records are these curves."""
    n = len(loss)
    target = tj.Target(TARGET.problem, 3, 0.1, 20.0, prior)
    settings = tj.Settings(chains=chains, burn_in=10).checked(target)
    noise = np.random.default_rng(0).normal(0, 1e-3, (chains, n))
    curves = {"epoch": np.arange(1, n + 1) * 10, "loss": loss, "acceptance": np.full(n, acceptance)}
    curves["s"] = np.full(n, 20.0)
    curves["weight_rms"] = np.ones(n) if weight_rms is None else weight_rms
    records = {
        name: np.broadcast_to(values, (chains, n)) + (noise if name == "loss" else 0) for name, values in curves.items()
    }
    # Of chains that do not agree.
    records["loss"] = records["loss"] + apart * np.arange(chains)[:, None]
    state = RunState(None, Control(0), curves["epoch"], None, None, epoch=10 * n, recorded=n)
    return tj.Run(target, settings, controller, state, records)


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        (lambda: finished(np.linspace(2, 1, 40)), "the loss still falls: go on with trajens resume DIR --epochs 400"),
        (lambda: finished(np.ones(6)), "there are too few records after burn-in"),
        (lambda: finished(np.ones(40)), "the loss has stopped falling: a larger --s"),
        (
            lambda: finished(np.ones(40), apart=1.0),
            "chains do not agree yet: go on with trajens resume DIR --epochs 400",
        ),
        (lambda: finished(np.ones(40), apart=1.0, controller=BUDGET), "chains do not agree yet: go on with trajens"),
        (lambda: finished(np.ones(40), controller=BUDGET), "the loss has stopped falling at this s: a larger --budget"),
        (lambda: finished(np.ones(40), acceptance=0.05), "acceptance is 0.05: a smaller --fraction"),
        (lambda: finished(np.ones(40), weight_rms=np.linspace(1, 2, 40)), "weights still grow"),
        (lambda: finished(np.ones(40), weight_rms=np.linspace(1, 2, 40), prior=0.3), "the loss has stopped falling"),
    ],
)
def test_what_to_do_next_fits_what_was_seen(run, sentence):
    assert advice(run(), "DIR").startswith(sentence)


def test_predictions_do_not_overwrite_in_silence_and_make_their_folder(capsys, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "data.npz", x=rng.standard_normal((30, 3)), y=rng.integers(0, 2, 30))
    out = str(tmp_path / "run")
    options = ["--model", "linear", "--tau", "2", "--epochs", "20", "--records", "2", "--chains", "1", "--out", out]
    assert call(capsys, "train", str(tmp_path / "data.npz"), *options)[0] == 0
    predict = ["predict", out, str(tmp_path / "data.npz"), "--out", str(tmp_path / "new" / "p.csv")]
    assert call(capsys, *predict)[0] == 0
    code, _, err = call(capsys, *predict)
    assert (code, "add --overwrite to replace it" in err) == (2, True)
    assert call(capsys, *predict, "--overwrite")[0] == 0
