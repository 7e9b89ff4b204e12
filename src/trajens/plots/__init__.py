"""Figures: those of runs and ensembles, and the style of all of them."""

from trajens.plots.run import plot_by_s, plot_reliability, plot_run

__all__ = ["plot_by_s", "plot_reliability", "plot_run"]
