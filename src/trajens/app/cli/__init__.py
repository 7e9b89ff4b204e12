"""The command line: parse, call the library, print."""

from trajens.app.cli.app import app, main

__all__ = ["app", "main"]
