"""The program ``trajens``, also as ``python -m trajens``: ready for Ctrl-C before what takes time is loaded."""

from __future__ import annotations

import contextlib
import os
import signal
import sys

from trajens.errors import BAD_INPUT
from trajens.loading import leave_on_interrupt


def main() -> None:
    """Run the command line on the arguments of this process."""
    # The signal may be ignored on purpose, as under nohup or in the background of a script.
    is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    try:
        with leave_on_interrupt():
            _open_closed_streams()
            from trajens.app.cli import main as run
    except ValueError as error:
        # JAX reads its variables when it is loaded, and refuses a value with a ValueError.
        text = " ".join(str(error).split())
        _say(f"trajens: error: the variables JAX_... must be what JAX accepts, got {text}; change or unset it.")
        sys.exit(BAD_INPUT)
    try:
        with leave_on_interrupt():
            run()
    finally:
        if is_heard:
            # All is done: what the interpreter still has to tidy up may be cut short without a word.
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _open_closed_streams() -> None:
    """Put nothing in the place of streams that are closed: else the next file to be opened would get their number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"{text}\n".encode())


if __name__ == "__main__":
    main()
