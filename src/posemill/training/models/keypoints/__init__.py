"""Models that take keypoints."""
