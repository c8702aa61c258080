"""The clips of pixels that a training reads, if it does, and what decoding them once would take."""

from __future__ import annotations

from typing import Any

from posemill.files import cache_folder
from posemill.training.tasks.workload import Split
from posemill.training.video.frame_cache import free_bytes
from posemill.training.video.video_clips import VideoClips


def video_of(split: Split) -> VideoClips | None:
    """Return the clips of pixels that a split reads; None where it reads something else."""
    batches: Any = split.batches
    for name in ("clips", "samples"):  # of ours, and of a data set given to `fit`
        if isinstance(found := getattr(batches, name, None), VideoClips):
            return found
    return None


def describe_videos(split: Split) -> dict[str, int]:
    """Return how many videos are decoded in every epoch, and what their frames would take."""
    clips = video_of(split)
    if clips is None or clips.cache is not None or clips.size.size_wh is None:
        return {}
    needed = clips.estimate_bytes()
    if needed is None:
        return {}
    return {
        "num_videos": sum(clip.kind == "video" for clip in clips.clips),
        "decoded_bytes": needed,
        "frame_side": max(clips.size.size_wh),
        "free_bytes": free_bytes(cache_folder()),
    }
