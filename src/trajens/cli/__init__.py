"""The command line: parse, call the library, print."""

from trajens.cli.app import app, main

__all__ = ["app", "main"]
