"""One page about a sweep: where its runs stand, and what came out over the options that vary."""

from trajens.report.sweep.page import SweepSeen, sweep_page, sweep_seen

__all__ = ["SweepSeen", "sweep_page", "sweep_seen"]
