"""First use without surprises: what to do next is said, Tab completes, and what was compiled is kept, or is not."""

import json
import os
import subprocess
import sys

import jax
import pytest
from typer.main import get_command

from trajens.app.cli import app
from trajens.app.cli import environment as compiled
from trajens.app.cli.app import FIRST_STEPS
from trajens.files import cache_folder

FOLDER, SHORTEST = "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"


def call(*arguments):
    with pytest.raises(SystemExit) as exit_:
        app(list(arguments), prog_name="trajens")
    return exit_.value.code


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A cache of its own, of which JAX was not told yet."""
    before = {name: jax.config.values[name] for name in (FOLDER, SHORTEST)}
    jax.config.update(FOLDER, None)
    monkeypatch.setenv("TRAJENS_CACHE", str(tmp_path / "cache"))
    yield tmp_path / "cache"
    for name, value in before.items():
        jax.config.update(name, value)


def test_without_arguments_it_says_what_to_do_next(capsys):
    assert call() == 0
    assert capsys.readouterr().out == f"{FIRST_STEPS}\n"
    commands = [line.split()[1] for line in FIRST_STEPS.splitlines() if line.startswith("  trajens ")]
    assert len(commands) > 5
    known = get_command(app)
    options = {option for parameter in known.params for option in parameter.opts}
    assert set(commands) <= {*known.commands, *options, "--help"}


def test_tab_completes_commands(capsys, monkeypatch):
    monkeypatch.setenv("_TRAJENS_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "trajens ev")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert call() == 0
    assert capsys.readouterr().out.split() == ["evaluate"]
    monkeypatch.delenv("_TRAJENS_COMPLETE")
    # Where no process above is a shell, as in some tests, none can be detected.
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    assert call("--show-completion", "bash") == 0
    assert "complete -o default -F _trajens_completion trajens" in capsys.readouterr().out


def test_programs_are_kept_in_a_folder_of_the_user_alone(kept, capsys):
    told = compiled.keep_compiled()
    assert told == jax.config.values[FOLDER]
    folder = next((kept / "xla").iterdir())
    assert told == str(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert call("info") == 0
    assert "".join(told.split()) in "".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("value", ["off", "OFF"])
def test_nothing_is_kept_where_that_is_asked_for(kept, monkeypatch, value):
    monkeypatch.setenv("TRAJENS_CACHE", value)
    assert cache_folder() is None
    assert compiled.keep_compiled() == "off, by TRAJENS_CACHE"
    assert jax.config.values[FOLDER] is None


def test_a_folder_that_cannot_be_used_is_done_without(kept):
    kept.write_text("in the way")
    assert "cannot be made" in compiled.keep_compiled()
    assert jax.config.values[FOLDER] is None
    kept.unlink()
    compiled.keep_compiled()
    jax.config.update(FOLDER, None)
    next((kept / "xla").iterdir()).chmod(0o777)
    assert "can be written by others" in compiled.keep_compiled()
    assert jax.config.values[FOLDER] is None


def test_a_folder_that_jax_was_told_before_is_left_alone(kept, tmp_path):
    jax.config.update(FOLDER, str(tmp_path))
    assert compiled.keep_compiled() == str(tmp_path)
    assert not kept.exists()


def test_the_oldest_programs_go(kept, monkeypatch):
    monkeypatch.setattr(compiled, "MOST_BYTES", 250)
    other = kept / "xla" / "of-another-cpu"
    other.mkdir(parents=True)
    for age, name in enumerate("abc"):
        entry = other / f"jit_{name}-cache"
        entry.write_bytes(bytes(100))
        os.utime(entry, (10**9 - age, 10**9 - age))
    compiled.keep_compiled()
    assert sorted(entry.name for entry in other.iterdir()) == ["jit_a-cache", "jit_b-cache"]


@pytest.mark.slow
def test_the_second_time_nothing_is_compiled_and_a_damaged_program_is_made_again(tmp_path):
    environment = {**os.environ, "TRAJENS_CACHE": str(tmp_path)}
    command = ["train", "perceptron", "--epochs", "400", "--chains", "4", "--json"]

    def run():
        done = subprocess.run(
            [sys.executable, "-m", "trajens", *command], env=environment, capture_output=True, text=True, check=True
        )
        assert "warning" not in done.stderr
        return {**json.loads(done.stdout), "seconds": 0}, {e.name: e.read_bytes() for e in tmp_path.rglob("*-cache")}

    first, programs = run()
    assert len(programs) > 2
    assert run() == (first, programs)
    [damaged] = tmp_path.rglob("jit__advance-*-cache")
    damaged.write_bytes(damaged.read_bytes()[:1000])
    again, made = run()
    assert again == first
    assert made.keys() == programs.keys()
    assert len(made[damaged.name]) > 1000


def test_python_keeps_programs_as_the_command_line_does(tmp_path):
    code = "import trajens as tj; print(tj.keep_compiled()); import jax; print(jax.config.jax_compilation_cache_dir)"
    environment = {**os.environ, "TRAJENS_CACHE": str(tmp_path / "kept")}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    told, used = found.stdout.split()
    assert told == used
    assert told.startswith(str(tmp_path / "kept"))
