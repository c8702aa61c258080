"""Runs into files, files into runs, several into one, and the model's input."""
