"""Runs on disk: schema, writer, reader."""
