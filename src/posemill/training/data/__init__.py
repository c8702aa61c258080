"""Clips with their targets: read, shaped, cached, augmented, put into batches."""
