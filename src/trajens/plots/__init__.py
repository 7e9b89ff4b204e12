"""Pictures of a run, for which Matplotlib is imported when one is drawn."""
