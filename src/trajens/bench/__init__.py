"""How fast the kernels and the sampler are, against each other and against PyTorch."""
