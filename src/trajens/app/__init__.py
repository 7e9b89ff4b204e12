"""The program: options, experiments, sweeps, pages and the command line. The library knows nothing of it."""
