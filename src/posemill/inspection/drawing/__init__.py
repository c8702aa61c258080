"""Keypoints as pictures and movies."""
