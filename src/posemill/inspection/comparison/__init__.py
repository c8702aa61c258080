"""Two runs of the same clips, part by part: agreement, distances, the worst frames."""
