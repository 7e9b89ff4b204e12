"""The sampler: a pure core (`init`, `advance`), devices to run it on, and what is counted and measured on the way."""
