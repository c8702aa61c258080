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
from posemill.sources.scan import Folder, Scan, file_version

_PICTURES = Message("folders that hold .png, .jpg, .jpeg, .webp, .bmp or .tif files")
_VIDEOS = Message("videos (.mp4, .mov, .avi, .mkv, .webm, .gif …)")


def find_frames(scan: Scan, collector: Collector) -> ClipList:
    """Return one clip for each folder that holds pictures.

    With the layout `frames` every one is a clip whose frames follow each other, with `pictures`
    none is; with `auto` those directly in the root (or in the folder of a split) are loose.
    """
    collector.num_ignored += scan.num_ignored + scan.num_videos
    collector.problems += scan.problems
    kinds: set[str] = set()
    folders = [folder for folder in scan.folders if folder.num_pictures]
    # Beside clips, a folder `test` that holds pictures itself is a clip of that name.
    first_parts = {folder.parts[0] for folder in folders if folder.parts}
    has_only_splits = all(_split_of((part,))[0] != "all" for part in first_parts)
    for folder in folders:
        split, parts = _split_of(folder.parts)
        if not parts and not has_only_splits:
            split, parts = "all", folder.parts
        name = "/".join(parts) or (folder.parts or (_root_name(scan.root),))[-1]
        kind: Literal["frames", "pictures"] = "frames"
        if collector.layout == "pictures" or (collector.layout == "auto" and not parts):
            kind = "pictures"
        clip = Clip(
            readable(name),
            folder.path,
            kind,
            split,
            num_frames=folder.num_pictures,
            version=folder.version,
        )
        collector.add(clip)
        kinds.add(kind)
    for folder in scan.unreadable:
        split, parts = _name_of_unreadable(folder)
        collector.add(Clip(readable("/".join(parts)), folder.path, "frames", split))
    if collector.layout == "auto":
        collector.layout = "frames" if "frames" in kinds else "pictures"
    if len(kinds) == 2:
        collector.problems.append(
            Message("pictures beside the folders of frames are taken as loose ones, each by itself")
        )
    return collector.finish(_PICTURES)


def find_videos(scan: Scan, collector: Collector) -> ClipList:
    """Return one clip for each video file."""
    collector.layout = "videos"
    collector.num_ignored += scan.num_ignored + scan.num_pictures
    collector.problems += scan.problems
    videos = []
    for folder in scan.folders:
        split, above = _split_of(folder.parts)
        for name, version in folder.videos.items():
            path = os.path.join(folder.path, name)  # noqa: PTH118
            videos.append((split, (*above, name), path, version))
    videos += [(*_name_of_unreadable(folder), folder.path, "") for folder in scan.unreadable]
    # `a/b.mp4` is called `a/b`, unless there is an `a/b.avi` too.
    stems = Counter((split, without_suffix("/".join(parts))) for split, parts, _, _ in videos)
    for split, parts, path, version in videos:
        name = "/".join(parts)
        stem = without_suffix(name)
        clip_id = stem if stems[split, stem] == 1 else name
        collector.add(Clip(readable(clip_id), path, "video", split, version=version))
    return collector.finish(_VIDEOS)


def find_files(files: Sequence[str], root: str, collector: Collector) -> ClipList:
    """Return each file of a list as a clip, by its path below the root.

    With the layout `videos` each is one; all others are pictures that stand alone.
    """
    folders: dict[str, Folder] = {}
    for path in files:
        above, name = os.path.split(path)
        parts = Path(above).relative_to(root).parts
        version = file_version(Path(path))
        if collector.layout == "videos":
            folders.setdefault(above, Folder(above, parts)).videos[name] = version
        else:
            clip_id = readable("/".join((*parts, name)))
            collector.add(Clip(clip_id, path, "pictures", num_frames=1, version=version))
    if collector.layout == "videos":
        return find_videos(Scan(root, list(folders.values())), collector)
    return collector.finish(_PICTURES)


def _split_of(parts: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the split that the first folder below the root names, and the rest of the path."""
    if parts and parts[0].lower() in SPLIT_NAMES:
        return parts[0].lower(), parts[1:]
    return "all", parts


def _name_of_unreadable(folder: Folder) -> tuple[str, tuple[str, ...]]:
    """Return the split and the name of an unreadable folder; that of a split keeps its own name."""
    split, parts = _split_of(folder.parts)
    return split, parts or folder.parts


def _root_name(root: str) -> str:
    """Return the last name of the root's path, whatever way it was written."""
    return Path(os.path.abspath(root)).name or "root"  # noqa: PTH100  (`a/..` is not `..`)
