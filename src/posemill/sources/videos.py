"""Folders of videos, at any depth, or one video."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from posemill.messages import Message
from posemill.records import Clip
from posemill.sources.clip_list import ClipList, Collector
from posemill.sources.frame_folders import split_and_name_of, split_of
from posemill.sources.names import readable, without_suffix
from posemill.sources.scan import Scan, file_version

_LOOKED_FOR = Message("videos (.mp4, .mov, .avi, .mkv, .webm, .gif …)")


def find_in_scan(scan: Scan, collector: Collector) -> ClipList:
    """Return one clip for each video file."""
    collector.layout = "videos"
    collector.num_ignored += scan.num_ignored + scan.num_pictures
    collector.problems += scan.problems
    found = [
        (
            *split_of((*folder.parts, name)),
            os.path.join(folder.path, name),  # noqa: PTH118
            version,
        )
        for folder in scan.folders
        for name, version in folder.videos.items()
    ]
    found += [(*split_and_name_of(folder), folder.path, "") for folder in scan.unreadable]
    # `a/b.mp4` is called `a/b`, unless there is an `a/b.avi` too.
    stems = Counter((split, without_suffix("/".join(parts))) for split, parts, _, _ in found)
    for split, parts, path, version in found:
        name = "/".join(parts)
        stem = without_suffix(name)
        clip_id = stem if stems[split, stem] == 1 else name
        collector.add(Clip(readable(clip_id), path, "video", split, version=version))
    return collector.finish(_LOOKED_FOR)


def find_one_video(path: str, collector: Collector) -> ClipList:
    """Return the one video as a clip."""
    collector.layout = "videos"
    version = file_version(Path(path))
    collector.add(Clip(readable(without_suffix(Path(path).name)), path, "video", version=version))
    return collector.finish(_LOOKED_FOR)
