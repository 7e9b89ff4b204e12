"""The application: its commands, and the one place where an error becomes a sentence and an exit code."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Annotated, Any, NoReturn

import typer
from jax.errors import JaxRuntimeError
from typer.core import TyperGroup

from trajens.app.cli.commands import known_commands
from trajens.app.cli.environment import is_forgiven, keep_compiled
from trajens.app.cli.streams import printing, say
from trajens.errors import BAD_INPUT, INTERRUPTED, NOT_WRITTEN, InputError, StorageError, first_line, require
from trajens.version import __version__

FIRST_STEPS = f"""\
trajens {__version__}: neural network ensembles without gradients, by Monte Carlo in the space of trajectories.

First steps, each of a few minutes at most:
  trajens train mnist --minutes 2 --out runs/a   train an ensemble on digits, which are part of the package
  trajens evaluate runs/a                        its accuracy, calibration and uncertainty on digits it has not seen
  trajens report runs/a                          one HTML page about it, to read or to send

Then:
  trajens train my_data.csv --out runs/b         data of your own: .csv, .npz or IDX; --label names the column
  trajens train CartPole-v1 --out runs/c         policies of reinforcement learning instead of supervised networks
  trajens train perceptron --s 5,20,80           an exactly known distribution, and how far the sampler is from it

  trajens --help                                 all commands
  trajens info                                   what is installed, what it runs on, where things are kept
  trajens --install-completion                   commands and options by the Tab key
"""
"""What is shown to those who say nothing."""
_ELSEWHERE = {
    "figure": "figures of the paper are a distribution of their own, trajens-paper, which is not installed; try pip "
    "install ./paper from a clone.",
    "bench": "benchmarks are scripts of a clone, not commands; try python benchmarks/kernel.py or python "
    "benchmarks/sampler.py.",
}
"""Commands that are not here -> what to do instead."""
_OUT_OF_MEMORY = "RESOURCE_EXHAUSTED"
# Typer brings its own copy of Click, or uses the one that is installed: the base of its errors is the same in both.
_UsageError: type[Any] = typer.BadParameter.__bases__[0]


class Commands(TyperGroup):
    """A group of commands that answers bad input with one sentence and never with a traceback or a box.

    A command is loaded when it is called; a list of all of them, or a completion of its name, loads none.
    """

    def __init__(self, **more: Any):
        super().__init__(**more)
        self.commands = known_commands()

    def main(self, *args: Any, **more: Any) -> Any:
        try:
            with _sentences(), printing():
                return super().main(*args, **more)
        except typer.Exit as leaving:
            sys.exit(leaving.exit_code)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = super().get_command(ctx, cmd_name)
        require(found is not None or cmd_name not in _ELSEWHERE, _ELSEWHERE.get(cmd_name, ""))
        return found

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _sentences():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with _sentences():
            return super().invoke(ctx)


@contextmanager
def _sentences() -> Iterator[None]:
    """Turn errors that are not bugs into a sentence and an exit code."""
    try:
        yield
    except _UsageError as error:
        _refuse(error)
    except InputError as error:
        _leave(BAD_INPUT, f"error: {error}")
    except StorageError as error:
        _leave(NOT_WRITTEN, f"error: {error}")
    except KeyboardInterrupt:
        _leave(INTERRUPTED, "interrupted; nothing more was written.")
    except MemoryError as error:
        _leave(BAD_INPUT, f"error: {_too_large(error)}")
    except JaxRuntimeError as error:
        if _OUT_OF_MEMORY not in str(error):
            raise
        _leave(BAD_INPUT, f"error: {_too_large(error)}")
    except OSError as error:
        # Whatever is written is so under `storage_errors`: this was to be read.
        if error.filename is None:
            raise
        _leave(BAD_INPUT, f"error: {_unreadable(error)}")


def _leave(code: int, text: str) -> NoReturn:
    say(f"trajens: {text}")
    raise typer.Exit(code) from None


def _too_large(error: Exception) -> str:
    return (
        f"the command must fit into memory, got {first_line(error)}; use fewer chains, a shorter path, a smaller "
        "network or less data."
    )


def _unreadable(error: OSError) -> str:
    return (
        f"'{error.filename}' must be a file or folder that can be read, got {error.strerror}; check the path and its "
        "permissions."
    )


def _refuse(error: Any) -> NoReturn:
    """An unknown command or flag, or one without its value."""
    if type(error).__name__ == "NoArgsIsHelpError":
        raise error
    command = "trajens" if error.ctx is None else error.ctx.command_path
    _leave(BAD_INPUT, f"error: {error.format_message().rstrip('.')}; see {command} --help.")


app = typer.Typer(
    cls=Commands,
    help="Neural network ensembles without gradients, by Monte Carlo in the space of trajectories.",
    epilog="Try: trajens train mnist --out runs/a",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line on the arguments of this process."""
    warnings.showwarning = _show_warning
    keep_compiled()
    _command()(prog_name="trajens")


@cache
def _command() -> Any:
    """What Typer makes of the functions, once in a process that runs many commands."""
    return typer.main.get_command(app)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    if not is_forgiven(str(message)):
        say(f"trajens: warning: {message}")


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"trajens {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(FIRST_STEPS)
