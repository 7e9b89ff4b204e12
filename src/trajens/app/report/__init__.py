"""One page about a run, about several side by side, or about a sweep, that needs nothing but itself to be read."""

from trajens.app.report.html import NAME
from trajens.app.report.page import page
from trajens.app.report.run_view import Seen, seen
from trajens.app.report.sweep_page import SweepSeen, sweep_page, sweep_seen

__all__ = ["NAME", "Seen", "SweepSeen", "page", "seen", "sweep_page", "sweep_seen"]
