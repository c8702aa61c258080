"""Clips to look at or to convert, whatever they are in: a run, or a file of any format."""
