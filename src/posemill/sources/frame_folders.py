"""Folders of frames: `<clip>/<frame>.png`, at any depth; pictures without a folder of their own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from posemill.messages import Message
from posemill.records import SPLIT_NAMES, Clip
from posemill.sources.clip_list import ClipList, Collector
from posemill.sources.names import readable
from posemill.sources.scan import Folder, Scan, file_version

_LOOKED_FOR = Message("folders that hold .png, .jpg, .jpeg, .webp, .bmp or .tif files")


def find_in_scan(scan: Scan, collector: Collector) -> ClipList:
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
    has_only_splits = all(split_of((part,))[0] != "all" for part in first_parts)
    for folder in folders:
        split, parts = split_of(folder.parts)
        if not parts and not has_only_splits:
            split, parts = "all", folder.parts
        name = "/".join(parts) or (folder.parts or (root_name(scan.root),))[-1]
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
        split, parts = split_and_name_of(folder)
        collector.add(Clip(readable("/".join(parts)), folder.path, "frames", split))
    if collector.layout == "auto":
        collector.layout = "frames" if "frames" in kinds else "pictures"
    if len(kinds) == 2:
        collector.problems.append(
            Message("pictures beside the folders of frames are taken as loose ones, each by itself")
        )
    return collector.finish(_LOOKED_FOR)


def find_one_picture(path: str, collector: Collector) -> ClipList:
    """Return the one picture as a clip of its own."""
    name = Path(path).name
    version = file_version(Path(path))
    collector.layout = "pictures"
    collector.add(Clip(readable(name), path, "pictures", num_frames=1, version=version))
    return collector.finish(_LOOKED_FOR)


def find_pictures(files: Sequence[Path], collector: Collector) -> ClipList:
    """Return each picture of a list as a clip of its own, called by its path below the root."""
    for file in files:
        name = readable(file.relative_to(collector.root).as_posix())
        version = file_version(file)
        collector.add(Clip(name, str(file), "pictures", num_frames=1, version=version))
    return collector.finish(_LOOKED_FOR)


def split_of(parts: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the split that the first folder below the root names, and the rest of the path."""
    if parts and parts[0].lower() in SPLIT_NAMES:
        return parts[0].lower(), parts[1:]
    return "all", parts


def split_and_name_of(folder: Folder) -> tuple[str, tuple[str, ...]]:
    """Return the split and the name of an unreadable folder; that of a split keeps its own name."""
    split, parts = split_of(folder.parts)
    return split, parts or folder.parts


def root_name(root: str) -> str:
    """Return the last name of the root's path, whatever way it was written."""
    return Path(os.path.abspath(root)).name or "root"  # noqa: PTH100  (`a/..` is not `..`)
