"""Functions over tasks."""
