"""Clips in a tree of files: a folder of frames, a video, or a picture by itself is one each."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from posemill.decoders.opening import without_suffix
from posemill.files import readable
from posemill.messages import Message
from posemill.records import SPLIT_NAMES, Clip
from posemill.sources.clip_list import ClipList, Collector
from posemill.sources.scan import Folder, file_version

_PICTURES = Message("folders that hold .png, .jpg, .jpeg, .webp, .bmp or .tif files")
_VIDEOS = Message("videos (.mp4, .mov, .avi, .mkv, .webm, .gif …)")


def find_frames(folders: Sequence[Folder], collector: Collector) -> ClipList:
    """Return one clip for each folder that holds pictures.

    With the layout `auto` those directly in the root (or in the folder of a split) are loose.
    """
    collector.num_ignored += sum(len(folder.videos) for folder in folders)
    # Beside clips, a folder `test` that holds pictures itself is a clip of that name.
    first_parts = {folder.parts[0] for folder in folders if folder.num_pictures and folder.parts}
    has_only_splits = all(_split_of((part,))[0] != "all" for part in first_parts)
    kinds: set[str] = set()
    for folder in folders:
        if folder.num_pictures == 0:
            continue
        split, parts = _split_of(folder.parts)
        kind: Literal["frames", "pictures"] = "frames"
        if folder.num_pictures is not None:
            if not parts and not has_only_splits:
                split, parts = "all", folder.parts
            if collector.layout == "pictures" or (collector.layout == "auto" and not parts):
                kind = "pictures"
            kinds.add(kind)
        # `a/..` is not `..`, so the root's name is not that of its real path.
        last = folder.parts or (Path(os.path.abspath(folder.path)).name or "root",)  # noqa: PTH100
        clip = Clip(
            readable("/".join(parts) or last[-1]),
            folder.path,
            kind,
            split,
            num_frames=folder.num_pictures,
            version=folder.version,
        )
        collector.add(clip)
    if collector.layout == "auto":
        collector.layout = "frames" if "frames" in kinds else "pictures"
    if len(kinds) == 2:
        collector.problems.append(
            Message("pictures beside the folders of frames are taken as loose ones, each by itself")
        )
    return collector.finish(_PICTURES)


def find_videos(folders: Sequence[Folder], collector: Collector) -> ClipList:
    """Return one clip for each video file."""
    collector.layout = "videos"
    collector.num_ignored += sum(folder.num_pictures or 0 for folder in folders)
    videos = []
    for folder in folders:
        split, above = _split_of(folder.parts)
        if folder.num_pictures is None:
            videos.append((split, "/".join(above or folder.parts), folder.path, ""))
        for name, version in folder.videos.items():
            path = os.path.join(folder.path, name)  # noqa: PTH118
            videos.append((split, "/".join((*above, name)), path, version))
    # `a/b.mp4` is called `a/b`, unless there is an `a/b.avi` too.
    stems = Counter((split, without_suffix(name)) for split, name, _, _ in videos)
    for split, name, path, version in videos:
        stem = without_suffix(name)
        clip_id = stem if stems[split, stem] == 1 else name
        collector.add(Clip(readable(clip_id), path, "video", split, version=version))
    return collector.finish(_VIDEOS)


def find_files(files: Sequence[str], root: str, collector: Collector) -> ClipList:
    """Return each file of a list as a clip, by its path below the root."""
    videos = []
    for path in files:
        above, name = os.path.split(path)
        parts = Path(above).relative_to(root).parts
        version = file_version(Path(path))
        if collector.layout == "videos":
            videos.append(Folder(above, parts, videos={name: version}))
        else:
            clip_id = readable("/".join((*parts, name)))
            collector.add(Clip(clip_id, path, "pictures", num_frames=1, version=version))
    return find_videos(videos, collector) if videos else collector.finish(_PICTURES)


def _split_of(parts: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the split that the first folder below the root names, and the rest of the path."""
    if parts and parts[0].lower() in SPLIT_NAMES:
        return parts[0].lower(), parts[1:]
    return "all", parts
