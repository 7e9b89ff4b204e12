"""The application: its commands, and what happens to bad input.

Exit codes: 0 done; 2 bad input (one sentence on stderr); 3 a file could not be written; 75 stopped by a signal and
saved; 130 interrupted at once, or stopped with nothing saved.
"""

from __future__ import annotations

import warnings
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from trajens.cli.bench import bench
from trajens.cli.evaluate import evaluate, picture
from trajens.cli.figure import figure
from trajens.cli.info import info
from trajens.cli.predict import predict
from trajens.cli.signals import INTERRUPTED
from trajens.cli.train import resume, train
from trajens.errors import InputError, StorageError
from trajens.version import __version__

# Typer brings its own copy of Click, or uses the one that is installed: the base of its errors is the same in both.
_UsageError: type[Any] = typer.BadParameter.__bases__[0]


class Commands(TyperGroup):
    """A group of commands that answers bad input with one sentence and never with a traceback or a box."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except _UsageError as error:
            _refuse(error)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except _UsageError as error:
            _refuse(error)
        except InputError as error:
            typer.echo(f"trajens: error: {error}", err=True)
            raise typer.Exit(2) from None
        except StorageError as error:
            typer.echo(f"trajens: error: {error}", err=True)
            raise typer.Exit(3) from None
        except KeyboardInterrupt:
            typer.echo("trajens: interrupted; nothing more was written.", err=True)
            raise typer.Exit(INTERRUPTED) from None


def _refuse(error: Any) -> NoReturn:
    """An unknown command or flag, or one without its value."""
    if type(error).__name__ == "NoArgsIsHelpError":
        raise error
    command = "trajens" if error.ctx is None else error.ctx.command_path
    typer.echo(f"trajens: error: {error.format_message().rstrip('.')}; see {command} --help.", err=True)
    raise typer.Exit(2) from None


app = typer.Typer(
    cls=Commands,
    help="Neural network ensembles without gradients, by Monte Carlo in the space of trajectories.",
    epilog="Try: trajens train mnist --out runs/a",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(bench, name="bench")
app.command()(train)
app.command()(resume)
app.command()(evaluate)
app.command()(predict)
app.command()(picture)
app.command()(figure)
app.command()(info)


def main() -> None:
    """Run the command line on the arguments of this process."""
    warnings.showwarning = _show_warning
    app(prog_name="trajens")


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    typer.echo(f"trajens: warning: {message}", err=True)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"trajens {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass
