"""Every module can be the first to be imported: the package loads its parts as they are asked for."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module", ["trajens.run", "trajens.plots.picture", "trajens.target", "trajens.ensemble", "trajens_paper"]
)
def test_a_module_can_be_imported_first(module):
    code = f"import {module}; import trajens; trajens.sample, trajens.exact, trajens.Penalty"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
