"""Multigrid: short and small clips in large batches first, whole ones at the end."""
