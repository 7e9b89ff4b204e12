"""The command line, as tests call it: in this process."""

import pytest

from trajens.app.cli import app


def call(capsys, *arguments):
    """Exit code, stdout and stderr of the command line."""
    with pytest.raises(SystemExit) as exit_:
        app(list(arguments), prog_name="trajens")
    out, err = capsys.readouterr()
    return exit_.value.code, out, err
