"""Models that take frames of video."""
