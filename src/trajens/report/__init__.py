"""One page about a run, or about several side by side, that needs nothing but itself to be read."""

from trajens.report.page import page
from trajens.report.seen import Seen, seen

__all__ = ["Seen", "page", "seen"]
