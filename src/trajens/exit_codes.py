"""Exit codes of the program; 0 is done, and 1, which Python gives an exception, a bug."""

BAD_INPUT = 2
"""What was asked for cannot be done: an option, an input, its size or the machine."""
NOT_WRITTEN = 3
"""A file or stdout could not be written."""
SOME_FAILED = 4
"""Some runs of a sweep failed; the others are complete."""
STOPPED = 75
"""A run was asked to stop and saved itself: try again later (EX_TEMPFAIL)."""
INTERRUPTED = 130
"""Interrupted at once, or stopped with nothing saved."""
