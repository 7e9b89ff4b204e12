"""Small runs whose results must stay as they are."""
