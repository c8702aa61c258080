"""Frames out of picture and video files."""
