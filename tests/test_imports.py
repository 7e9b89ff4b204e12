"""Every module can be the first to be imported, and a command loads what it needs: parts come as they are asked for."""

import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.parametrize(
    "module", ["trajens.run", "trajens.app.picture", "trajens.target", "trajens.ensemble", "trajens_paper"]
)
def test_a_module_can_be_imported_first(module):
    code = f"import {module}; import trajens; trajens.sample, trajens.exact, trajens.Penalty"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


MOST = {"info": 25, "--help": 20, "": 20}
"""Command -> how many modules of trajens it may load, of some 150."""


@pytest.mark.parametrize("command", MOST)
def test_a_command_loads_what_it_needs(command):
    code = (
        "import sys; from trajens.app.cli import app\n"
        f"try: app({command.split()}, prog_name='trajens')\n"
        "except SystemExit as end: assert end.code == 0\n"
        "print(*(name for name in sys.modules if name.startswith('trajens')), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = result.stderr.split()
    assert "trajens.app.cli.app" in loaded
    assert len(loaded) <= MOST[command], loaded
    parts = {"report", "plots", "estimators", "sweeps", "experiment", "experiments", "run"}
    assert not parts & {part for name in loaded for part in name.split(".")[1:3]}
    assert not [name for name in loaded if name.startswith("trajens_paper")]
