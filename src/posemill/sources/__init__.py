"""Where clips come from: `find_clips` looks at a path and returns a `ClipList`."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from posemill.decoders.opening import PICTURE_SUFFIXES, VIDEO_SUFFIXES, suffix_of
from posemill.errors import SourceError
from posemill.files import near_path, readable
from posemill.messages import Message
from posemill.places import uri_of
from posemill.plugins import unknown
from posemill.records import Clip
from posemill.sources import folders, lists
from posemill.sources.clip_list import ClipList, Collector, SplitTotals
from posemill.sources.lists import LIST_SUFFIXES
from posemill.sources.scan import look_at, scan

__all__ = ["LAYOUTS", "ClipList", "SplitTotals", "clip_at", "find_clips", "find_files"]

# What a user may say; `auto` finds it out.
LAYOUTS = {
    "auto": "look at what is there",
    "frames": "<clip>/<frame>.png, at any depth; each folder one clip",
    "pictures": "pictures that have nothing to do with each other",
    "videos": "video files, at any depth; or one of them",
    "phoenix": "PHOENIX-2014-T: its release, PHOENIX-2014-T or fullFrame-210x260px",
    "list": "a .csv, .tsv or .jsonl file with a path in each row",
}
_LAYOUT_OF_FILE = {
    **dict.fromkeys(VIDEO_SUFFIXES, "videos"),
    **dict.fromkeys(PICTURE_SUFFIXES, "pictures"),
    **dict.fromkeys(LIST_SUFFIXES, "list"),
}
_ANYTHING = Message("folders of pictures, loose pictures, videos and PHOENIX-2014-T, at any depth")


def find_clips(
    path: str | os.PathLike[str], *, layout: str = "auto", splits: Sequence[str] | None = None
) -> ClipList:
    """Return all clips at a path, of these splits or of all. Nothing is decoded.

    `SourceError` where there is nothing to read, or more than one way to read it.
    """
    if layout not in LAYOUTS:
        raise unknown("layout", layout, LAYOUTS)
    uri = uri_of(path)
    root = uri or os.fsdecode(path)
    try:
        # At a URI the ending of a name tells an object from all that lies below it.
        is_named = layout == "list" or suffix_of(root) in _LAYOUT_OF_FILE
        is_file = is_named if uri else not stat.S_ISDIR(Path(root).stat().st_mode)
    except OSError as error:
        raise SourceError(
            "{path!r} cannot be read: {reason}{hint}",
            path=readable(root),
            reason=Message(error.strerror or ""),
            hint=near_path(Path(root)) if isinstance(error, FileNotFoundError) else "",
        ) from error
    if is_file:
        layout = _layout_of_file(root, layout)
    elif layout == "list":
        template = "{root!r} is a folder; layout 'list' expects a file"
        raise SourceError(template, root=readable(root))
    elif layout == "auto" and uri is None and folders.find_phoenix_frames(root):
        layout = "phoenix"
    collector = Collector(layout, root, splits or ())
    if layout == "list":
        return lists.find(root, collector)
    if layout == "phoenix":
        return folders.find_phoenix(root, collector)
    if is_file:
        return folders.find_files([root], os.path.dirname(root), collector)  # noqa: PTH120
    return _find_in_folder(root, collector)


def clip_at(source: Path) -> Clip:
    """Return the clip that a path or a URI names: a folder of pictures, a picture or a video."""
    uri = uri_of(source)
    if uri is None and not source.exists():
        template = "{source}: no such file or folder; expected pictures or a video{hint}"
        raise SourceError(template, source=source, hint=near_path(source))
    kind, folder = look_at(uri or str(source))
    if folder.videos and not folder.num_pictures:
        raise SourceError(
            "{folder} holds {num_videos} videos and no pictures: give one of them, as "
            "{example}, or take all: posemill extract {folder!q} --out RUN",
            folder=source,
            num_videos=len(folder.videos),
            example=source / min(folder.videos),
        )
    return folder.clip(source.name, kind, version="")


def find_files(paths: Iterable[str | os.PathLike[str]]) -> tuple[str, ClipList]:
    """Return the folder that all files of a list lie below, and a clip for each of them.

    They are videos, or pictures that have nothing to do with each other; else it is `SourceError`.
    """
    files = list(dict.fromkeys(Path(os.path.abspath(os.fsdecode(path))) for path in paths))  # noqa: PTH100
    if not files:
        raise SourceError("expected a list of videos or pictures, got an empty one")
    for file in files:
        if not file.is_file():
            raise SourceError(
                "{file!r} is no file{hint}", file=readable(str(file)), hint=near_path(file)
            )
    suffixes = {suffix_of(file.name) for file in files}
    layouts = {_LAYOUT_OF_FILE.get(suffix, "list") for suffix in suffixes}
    if len(layouts) > 1 or "list" in layouts:
        raise SourceError(
            "expected a list of videos, or a list of pictures, got files that end in {suffixes}",
            suffixes=", ".join(sorted(suffixes)),
        )
    root = os.path.commonpath([file.parent for file in files])
    collector = Collector(layouts.pop(), root)
    return root, folders.find_files(list(map(str, files)), root, collector)


def _layout_of_file(path: str, layout: str) -> str:
    # The user knows better than an ending that says nothing.
    found = _LAYOUT_OF_FILE.get(suffix_of(path), layout)
    if found not in _LAYOUT_OF_FILE.values() or layout not in ("auto", found):
        raise SourceError(
            "{path!r}: expected a picture, a video or a list (.csv, .tsv, .jsonl) by its name, and "
            "a layout that fits; say {--layout:videos}, {--layout:pictures} or {--layout:list}",
            path=readable(path),
        )
    if found != "list" and uri_of(path) is not None:
        raise SourceError(
            "{uri} is one object; give what it lies in, or a list (.csv) with it in a row", uri=path
        )
    return found


def _find_in_folder(root: str, collector: Collector) -> ClipList:
    """Return the clips of a folder or a URI; frames and loose pictures are told apart in it."""
    tree, is_videos = scan(root, collector), collector.layout == "videos"
    if collector.layout == "auto":
        num_videos = sum(len(folder.videos) for folder in tree)
        num_pictures = sum(folder.num_pictures or 0 for folder in tree)
        if not num_pictures and not num_videos:
            raise collector.nothing(_ANYTHING)
        if num_pictures and num_videos:
            raise SourceError(
                "{root!r} holds both {num_videos:video|videos} and "
                "{num_pictures:picture|pictures}; extract one kind by {--layout:videos}, "
                "{--layout:frames} or {--layout:pictures}",
                root=readable(root),
                num_videos=num_videos,
                num_pictures=num_pictures,
            )
        is_videos = num_videos > 0
    return (folders.find_videos if is_videos else folders.find_frames)(tree, collector)
