"""Training on keypoints."""
