"""The command line: the app, and one module per group of commands."""
