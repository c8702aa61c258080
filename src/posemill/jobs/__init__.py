"""Extraction jobs: the only place that joins sources, estimators, executors and runs."""
