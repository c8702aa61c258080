"""One walk over a tree of files, or one listing at a URI: folders of pictures, and videos."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from posemill.decoders.opening import (
    PICTURE_SUFFIXES,
    VIDEO_SUFFIXES,
    natural_key,
    natural_sort,
    suffix_of,
)
from posemill.errors import SourceError
from posemill.files import OUTPUT_NAMES, folder_kind, kind_by_names, marked_files, readable
from posemill.messages import Message
from posemill.places import Entry, open_place, uri_of
from posemill.records import Clip
from posemill.sources.clip_list import Collector
from posemill.terminal import warn_once

# Left by archivers and storage boxes beside the data, with pictures inside.
FOREIGN_FOLDERS = frozenset(["__MACOSX", "@eaDir", "$RECYCLE.BIN", "System Volume Information"])
_SUFFIXES = PICTURE_SUFFIXES | VIDEO_SUFFIXES
_MAX_DEPTH = 64
_WRITTEN_BY_US = "{path!r} was written by posemill; left out"
_DRAWN_BY_US = "{path!r}: left out {number:picture|pictures} that posemill drew"
MISSING = "missing"  # the version of a file that is not there
Kind = Literal["frames", "video", "pictures"]


@dataclass
class Folder:
    """What one folder holds directly."""

    path: str  # on the disk, or its URI
    parts: tuple[str, ...]  # the names below the root that lead to it
    # None where nobody can say what is in it: it becomes a clip that fails with its reason.
    num_pictures: int | None = 0
    version: str = ""  # of all pictures together; see `joined_version`
    videos: dict[str, str] = field(default_factory=dict)  # name and version
    marks: set[str] = field(default_factory=set)  # by which what posemill wrote is known
    _pictures: dict[str, str] = field(default_factory=dict)

    def take(self, name: str, file: os.DirEntry[str] | Entry) -> bool:
        """Keep a file in it that is a picture or a video; return whether it is one."""
        suffix = suffix_of(name)
        is_one = suffix in _SUFFIXES and name[0] != "."
        if is_one:
            files = self._pictures if suffix in PICTURE_SUFFIXES else self.videos
            files[name] = file.version if isinstance(file, Entry) else file_version(file)
        elif name in OUTPUT_NAMES:
            self.marks.add(name)
        return is_one

    def look(self) -> tuple[list[str], int, int]:
        """Take what is in it, on a disk; return its folders, how much else, how much is ours."""
        below, num_ignored, ours = [], 0, marked_files(self.path)
        with os.scandir(self.path) as entries:
            for entry in entries:
                if not _is_folder(entry):
                    num_ignored += entry.name in ours or not self.take(entry.name, entry)
                elif entry.name[0] == "." or entry.name in FOREIGN_FOLDERS:
                    num_ignored += 1
                else:
                    below.append(entry.name)
        self.close()
        return below, num_ignored, len(ours)

    def clip(self, clip_id: str, kind: Kind, split: str = "all", **more: Any) -> Clip:
        """Return it as a clip."""
        given = {"num_frames": self.num_pictures, "version": self.version, **more}
        return Clip(readable(clip_id), self.path, kind, split, **given)

    def close(self) -> None:
        """Count what was taken."""
        self.num_pictures, self.version = len(self._pictures), joined_version(self._pictures)
        self._pictures.clear()  # a million names are no longer needed


def scan(root: str, collector: Collector) -> list[Folder]:
    """Return the folders with pictures or videos at a path or a URI, in natural order.

    Links are followed, but not in circles. The collector gets the number of other files, and what
    is wrong. A URI at which nothing is is a `SourceError`.
    """
    is_on_disk = uri_of(root) is None
    return list(_walk(Folder(root, ()), (), collector) if is_on_disk else _list(root, collector))


def _walk(
    folder: Folder, above: tuple[tuple[int, int], ...], collector: Collector
) -> Iterator[Folder]:
    """Yield a folder and those below; `above` has device and inode of the folders leading here."""
    problem, reason, below = "", "", list[str]()
    try:
        status = os.stat(folder.path)  # noqa: PTH116
        identity = (status.st_dev, status.st_ino)
        if identity in above:
            problem = "{path!r} links to a folder above itself"
        elif len(above) > _MAX_DEPTH:
            problem = "{path!r} is too deep and was left out"
        else:
            below, num_ignored, number = folder.look()
            collector.num_ignored += num_ignored
            if number:
                collector.say(_DRAWN_BY_US, path=readable(folder.path), number=number)
            # The root is what the user named; anything below it that we wrote is no data.
            if folder.parts and folder_kind(Path(folder.path), folder.marks):
                collector.num_ignored += (folder.num_pictures or 0) + len(folder.videos)
                problem = _WRITTEN_BY_US
    except OSError as error:
        problem, reason = "{path!r} cannot be read: {reason}", Message(error.strerror or "")
        if folder.parts:
            yield Folder(folder.path, folder.parts, num_pictures=None)
    if problem:
        collector.say(problem, path=readable(folder.path), reason=reason)
        return
    if folder.num_pictures or folder.videos:
        yield folder
    for name in natural_sort(below):
        child = Folder(os.path.join(folder.path, name), (*folder.parts, name))  # noqa: PTH118
        yield from _walk(child, (*above, identity), collector)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to where we may not look; pictures and videos fail when they are read
        return suffix_of(entry.name) not in _SUFFIXES


def look_at(path: str) -> tuple[Kind, Folder]:
    """Return the kind of clip that a path or a URI is, and what can be told of it as of a folder.

    A missing one has the version `MISSING`, and is what its name looks like.
    """
    suffix, folder = suffix_of(path), Folder(path, (), num_pictures=None)
    is_video = suffix in VIDEO_SUFFIXES
    if uri_of(path) is None:  # a look at each of a million there takes hours: the name tells
        try:
            if os.path.isdir(path):  # noqa: PTH112
                if number := folder.look()[2]:
                    warn_once(Message(_DRAWN_BY_US, path=readable(path), number=number))
                return "frames", folder
            folder.version = file_version(Path(path))
        except OSError:
            folder.version = MISSING
        is_video |= folder.version != MISSING
    if suffix in PICTURE_SUFFIXES:
        folder.num_pictures = 1
        return "pictures", folder
    return "video" if is_video else "frames", folder


def is_picture(name: str) -> bool:
    """Return whether a file is a picture by its name."""
    return suffix_of(name) in PICTURE_SUFFIXES and name[0] != "."


def list_pictures(path: str) -> list[str]:
    """Return the names of the pictures directly in a folder, in natural order."""
    with os.scandir(path) as entries:
        names = [each.name for each in entries if is_picture(each.name) and not _is_folder(each)]
    ours = marked_files(path)
    return natural_sort(name for name in names if name not in ours)


def file_version(file: os.DirEntry[str] | Path) -> str:
    """Return what changes when a file does: its size and its time of change.

    Whole seconds: not every file system that a dataset is moved to keeps more.
    """
    try:
        status = file.stat()
    except OSError:
        return MISSING  # a broken link: it fails when it is read, with its reason
    return f"{int(status.st_mtime):x}-{status.st_size:x}"


def joined_version(versions: Mapping[str, str]) -> str:
    """Return a short digest that changes when a file comes, goes or changes; versions by name."""
    lines = sorted(f"{name}\0{version}" for name, version in versions.items())
    return hashlib.sha256(os.fsencode("\0".join(lines))).hexdigest()[:32]


def _list(uri: str, collector: Collector) -> Iterator[Folder]:
    """Yield the folders below a URI, as `_walk` does; one listing, no reading."""
    place, folders = open_place(uri), dict[tuple[str, ...], Folder]()
    for entry in place.list():
        *above, name = entry.key.split("/")
        parts = tuple(above)
        if any(part[:1] == "." or part in FOREIGN_FOLDERS for part in parts):
            collector.num_ignored += 1
            continue
        folder = folders.setdefault(parts, Folder("/".join((uri, *parts)), parts))
        collector.num_ignored += not folder.take(name, entry)
    if not folders and not collector.num_ignored:
        raise SourceError("{uri}: there is nothing; look at its name, and at the bucket's", uri=uri)

    def read_head(parts: tuple[str, ...], name: str) -> bytes:
        return next(place.read("/".join((*parts, name))), b"")[: 1 << 16]

    heads = {parts: partial(read_head, parts) for parts in folders if parts}
    ours = [parts for parts, head in heads.items() if kind_by_names(folders[parts].marks, head)]
    collector.problems += [Message(_WRITTEN_BY_US, path=folders[parts].path) for parts in ours]
    for folder in sorted(folders.values(), key=lambda folder: natural_key("/".join(folder.parts))):
        is_ours = any(folder.parts[: len(above)] == above for above in ours)
        folder.close()
        if (folder.num_pictures or folder.videos) and not is_ours:
            yield folder
