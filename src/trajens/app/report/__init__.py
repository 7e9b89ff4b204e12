"""One page about a run, about several side by side, or about a sweep, that needs nothing but itself to be read."""

from trajens.app.report.html import NAME
from trajens.app.report.page import page, report, write_page
from trajens.app.report.run_view import RunView, load_view
from trajens.app.report.sweep_page import SweepView, load_sweep_view, sweep_page

__all__ = ["NAME", "RunView", "SweepView", "load_sweep_view", "load_view", "page", "report", "sweep_page", "write_page"]
