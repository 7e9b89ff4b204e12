"""What Windows lacks is not needed: nothing of it is here, as far as that can be taken away from a process.

Other packages are loaded before, as they have their own ways there. It is no run on Windows, which the workflow of the
wheels makes.
"""

import subprocess
import sys

import pytest

import trajens as tj
from trajens.errors import InputError

CODE = """
import builtins, fcntl, importlib, os, pkgutil, signal, stat, sys, tempfile, time
from pathlib import Path
import dask, distributed, jax, jax.numpy, matplotlib.pyplot, numpy, rich.live, scipy.stats, submitit, typer
import jax.experimental.compilation_cache.compilation_cache, sklearn.base

MISSING = {
    os: ["fork", "fchmod", "fchown", "getuid", "geteuid", "getgid", "killpg", "mkfifo", "setsid", "sysconf", "uname",
         "sched_getaffinity", "sched_setaffinity", "statvfs", "getloadavg", "pread", "pwrite", "posix_fadvise"],
    signal: ["SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGUSR1", "SIGUSR2", "pthread_sigmask",
             "setitimer", "alarm", "pause", "siginterrupt"],
    time: ["tzset"],
}
for module, names in MISSING.items():
    for name in names:
        delattr(module, name)

NO_MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
first_import = builtins.__import__

def windows_import(name, globals=None, *rest, **more):
    if name in NO_MODULES and (globals or {}).get("__name__", "").startswith("trajens"):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return first_import(name, globals, *rest, **more)

builtins.__import__ = windows_import
first_open, first_fsync = os.open, os.fsync

def windows_open(path, *rest, **more):
    if Path(path).is_dir():
        raise PermissionError(13, "Permission denied", str(path))
    return first_open(path, *rest, **more)

def windows_fsync(handle):
    if fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(9, "Bad file descriptor")
    first_fsync(handle)

os.open, os.fsync = windows_open, windows_fsync

import trajens
found = [module.name for module in pkgutil.walk_packages(trajens.__path__, "trajens.")
         if module.name not in ("trajens.kernels.trajens_cpu", "trajens.kernels.trajens_cuda")]
for name in found:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        # A package that is not installed here, and not one that Windows has not.
        assert error.name == "torch", error
print(len(found), "modules")

from trajens.__main__ import main
size = ["--epochs", "400", "--chains", "2", "--records", "4"]
for arguments in (["info"], ["train", "perceptron", *size, "--out", "run"], ["resume", "run", "--epochs", "600"]):
    sys.argv = ["trajens", *arguments]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (arguments, end.code)
from trajens.files import Lock
with Lock(Path(".")):
    print("locked")
"""


@pytest.mark.slow
def test_modules_are_imported_and_a_run_is_made_and_read(tmp_path):
    done = subprocess.run([sys.executable, "-c", CODE], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    modules, *_, last = done.stdout.splitlines()
    assert int(modules.split()[0]) > 100
    assert last == "locked"
    assert (tmp_path / "run" / "records.csv").stat().st_size > 0


def test_a_sweep_is_refused_with_a_sentence(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("os.name", "nt")
        with pytest.raises(InputError, match="a sweep must be on Linux or macOS, got Windows"):
            tj.sweep({}, "out")
