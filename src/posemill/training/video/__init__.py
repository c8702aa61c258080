"""Clips of pixels for training: which there are, reading them, batches, augmentation."""
