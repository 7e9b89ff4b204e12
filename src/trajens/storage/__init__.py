"""Runs on disk: the names of files and of what is in them stand in this folder and nowhere else."""
