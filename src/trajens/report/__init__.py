"""One page about a run, about several side by side, or about a sweep, that needs nothing but itself to be read."""

from trajens.report.document import NAME
from trajens.report.page import page
from trajens.report.seen import Seen, seen
from trajens.report.sweep import SweepSeen, sweep_page, sweep_seen

__all__ = ["NAME", "Seen", "SweepSeen", "page", "seen", "sweep_page", "sweep_seen"]
