"""Where clips come from: `find_clips` looks at a path and returns a `ClipList`."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from posemill.decoders.opening import PICTURE_SUFFIXES, VIDEO_SUFFIXES, suffix_of
from posemill.errors import SourceError
from posemill.files import near_path, readable
from posemill.messages import Message, join
from posemill.places import uri_of
from posemill.plugins import unknown
from posemill.sources import folders, lists, phoenix
from posemill.sources.clip_list import ClipList, Collector, SplitTotals
from posemill.sources.lists import LIST_SUFFIXES
from posemill.sources.scan import Scan, scan_place, scan_tree

__all__ = ["LAYOUTS", "ClipList", "SplitTotals", "find_clips", "find_files"]

# What a user may say; `auto` finds it out.
LAYOUTS = {
    "auto": "look at what is there",
    "frames": "<clip>/<frame>.png, at any depth; each folder one clip",
    "pictures": "pictures that have nothing to do with each other",
    "videos": "video files, at any depth; or one of them",
    "phoenix": "PHOENIX-2014-T: its release, PHOENIX-2014-T or fullFrame-210x260px",
    "list": "a .csv, .tsv or .jsonl file with a path in each row",
}


def find_clips(
    path: str | os.PathLike[str], *, layout: str = "auto", splits: Sequence[str] | None = None
) -> ClipList:
    """Return all clips at a path. Nothing is decoded.

    Args:
        path: A folder, a picture, a video or a list.
        layout: A key of `LAYOUTS`.
        splits: Keep only these; one that is not there is an error.

    Raises:
        SourceError: Nothing to read there, or more than one way to read it.
    """
    if layout not in LAYOUTS:
        raise unknown("layout", layout, LAYOUTS)
    root = uri_of(path) or os.fsdecode(path)
    chosen, scan = _choose(root, layout)
    # Loose pictures and frames are told apart folder by folder, unless the user said it.
    name = "auto" if layout == "auto" and chosen in ("frames", "pictures") else chosen
    collector = Collector(name, root, splits or None)
    if chosen == "phoenix":
        return phoenix.find(root, collector)
    if chosen == "list":
        return lists.find(root, collector)
    if scan is None:
        collector.layout = chosen
        return folders.find_files([root], os.path.dirname(root), collector)  # noqa: PTH120
    find = folders.find_videos if chosen == "videos" else folders.find_frames
    return find(scan, collector)


def find_files(paths: Iterable[str | os.PathLike[str]]) -> tuple[str, ClipList]:
    """Return the folder that all files of a list lie below, and a clip for each of them.

    Args:
        paths: Videos, or pictures that have nothing to do with each other.

    Raises:
        SourceError: There are none, one is not there, or there are both videos and pictures.
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
    root = os.path.commonpath([file.parent for file in files])
    for layout, known in (("videos", VIDEO_SUFFIXES), ("pictures", PICTURE_SUFFIXES)):
        if suffixes <= known:
            collector = Collector(layout, root)
            return root, folders.find_files(list(map(str, files)), root, collector)
    raise SourceError(
        "expected a list of videos, or a list of pictures, got files that end in {suffixes}",
        suffixes=", ".join(sorted(suffixes)),
    )


def _choose(root: str, layout: str) -> tuple[str, Scan | None]:
    """Return the layout to use, and what lies below the root if it had to be looked at."""
    if uri_of(root) is not None:
        return _choose_at_place(root, layout)
    try:
        is_folder = stat.S_ISDIR(Path(root).stat().st_mode)
    except OSError as error:
        raise SourceError(
            "{path!r} cannot be read: {reason}{hint}",
            path=readable(root),
            reason=Message(error.strerror or ""),
            hint=near_path(Path(root)) if isinstance(error, FileNotFoundError) else "",
        ) from error
    if not is_folder:
        return _choose_for_file(root, layout), None
    if layout == "list":
        raise SourceError("{root!r} is a folder; layout 'list' expects a file", root=readable(root))
    if layout == "phoenix" or (layout == "auto" and phoenix.find_places(root)):
        return "phoenix", None
    return _choose_for_scan(root, layout, scan_tree(root))


def _choose_at_place(uri: str, layout: str) -> tuple[str, Scan | None]:
    """Return the same for a URI: the ending of its name tells an object from all below it."""
    if layout == "phoenix":
        raise SourceError(
            "{uri}: PHOENIX-2014-T is read from a disk; at a URI say {--layout:frames}, or "
            "give a list of its folders",
            uri=uri,
        )
    if layout == "list" or suffix_of(uri) in LIST_SUFFIXES:
        return "list", None
    if suffix_of(uri) in PICTURE_SUFFIXES or suffix_of(uri) in VIDEO_SUFFIXES:
        raise SourceError(
            "{uri} is one object; give what it lies in, or a list (.csv) with it in a row", uri=uri
        )
    return _choose_for_scan(uri, layout, scan_place(uri))


def _choose_for_scan(root: str, layout: str, scan: Scan) -> tuple[str, Scan]:
    if layout != "auto":
        return layout, scan
    if scan.num_pictures and scan.num_videos:
        raise SourceError(
            "{root!r} holds both {num_videos:video|videos} and "
            "{num_pictures:picture|pictures}; say which: {--layout:videos}, "
            "{--layout:frames} or {--layout:pictures}",
            root=readable(root),
            num_videos=scan.num_videos,
            num_pictures=scan.num_pictures,
        )
    if not scan.num_pictures and not scan.num_videos:
        raise SourceError(
            "no clips in {root!r}: looked for folders of pictures, loose pictures, videos "
            "and PHOENIX-2014-T, at any depth; found {found}",
            root=readable(root),
            found=_describe(root, scan),
        )
    return ("videos" if scan.num_videos else "frames"), scan


def _choose_for_file(path: str, layout: str) -> str:
    suffix = suffix_of(path)
    known = {"videos": VIDEO_SUFFIXES, "pictures": PICTURE_SUFFIXES, "list": LIST_SUFFIXES}
    fits = next((name for name, suffixes in known.items() if suffix in suffixes), None)
    if layout in known and fits in (layout, None):
        return layout
    if layout == "auto" and fits is not None:
        return fits
    raise SourceError(
        "{path!r}: expected a picture, a video or a list (.csv, .tsv, .jsonl) by its name, and a "
        "layout that fits; say {--layout:videos}, {--layout:pictures} or {--layout:list}",
        path=readable(path),
    )


def _describe(root: str, scan: Scan) -> Message:
    """Return what is in a folder that holds no clips, for an error."""
    names = [] if uri_of(root) else sorted(entry.name for entry in Path(root).iterdir())[:5]
    entries = Message(
        "{number} other files (first entries: {names})",
        number=scan.num_ignored,
        names=", ".join(repr(readable(name)) for name in names) or Message("nothing"),
    )
    return join("; ", [entries, *scan.problems])
