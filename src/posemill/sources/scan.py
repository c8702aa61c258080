"""One walk over a tree of files, or one listing at a URI: folders of pictures, and videos."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from posemill.decoders.opening import (
    PICTURE_SUFFIXES,
    VIDEO_SUFFIXES,
    natural_sort,
    raise_decode_error,
    suffix_of,
)
from posemill.errors import SourceError
from posemill.files import OUTPUT_MARK, OUTPUT_NAMES, OWN_FILES, is_output, readable
from posemill.messages import Message
from posemill.places import ChangedError, Entry, Place, open_place

# Left by archivers and storage boxes beside the data, with pictures inside.
FOREIGN_FOLDERS = frozenset(["__MACOSX", "@eaDir", "$RECYCLE.BIN", "System Volume Information"])
_MAX_DEPTH = 64
_WRITTEN_BY_US = "{path!r} was written by posemill; left out"
MISSING = "missing"  # the version of a file that is not there


@dataclass
class Folder:
    """What one folder holds directly.

    Args:
        path: On the disk.
        parts: The names below the root that lead to it; empty for the root.
        num_pictures: Pictures in it.
        version: Of all pictures together; see `joined_version`.
        videos: Name and version of each video.
        marks: Files by which folders that posemill wrote are known.
    """

    path: str
    parts: tuple[str, ...]
    num_pictures: int = 0
    version: str = ""
    videos: dict[str, str] = field(default_factory=dict)
    marks: set[str] = field(default_factory=set)


@dataclass
class Scan:
    """A whole tree; only folders with pictures or videos are kept.

    Args:
        unreadable: Folders, and links that lead nowhere, of which nobody can say what is in them.
            Each becomes a clip that fails with its reason: nothing is lost in silence.
    """

    root: str
    folders: list[Folder] = field(default_factory=list)
    unreadable: list[Folder] = field(default_factory=list)
    num_ignored: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def num_pictures(self) -> int:
        """Pictures in the tree."""
        return sum(folder.num_pictures for folder in self.folders)

    @property
    def num_videos(self) -> int:
        """Videos in the tree."""
        return sum(len(folder.videos) for folder in self.folders)


def scan_tree(root: str) -> Scan:
    """Return what lies below `root`, in natural order. Links are followed, but not in circles."""
    scan = Scan(root)
    _scan_folder(scan, Folder(root, ()), ())
    return scan


def _scan_folder(scan: Scan, folder: Folder, above: tuple[tuple[int, int], ...]) -> None:
    """Look into one folder and then those below.

    Args:
        scan: Gets what is found.
        folder: The one to look into.
        above: Device and inode of the folders that lead here.
    """
    problem, below = None, list[str]()
    try:
        status = os.stat(folder.path)  # noqa: PTH116
        identity = (status.st_dev, status.st_ino)
        if identity in above:
            problem = "{path!r} links to a folder above itself"
        elif len(above) > _MAX_DEPTH:
            problem = "{path!r} is too deep and was left out"
        else:
            below = list(_sort_entries(scan, folder))
            # The root is what the user named; anything below it that we wrote is no data.
            if folder.parts and is_output(Path(folder.path), folder.marks):
                scan.num_ignored += folder.num_pictures + len(folder.videos)
                problem = _WRITTEN_BY_US
    except OSError as error:
        scan.problems.append(
            Message(
                "{path!r} cannot be read: {reason}",
                path=readable(folder.path),
                reason=Message(error.strerror or ""),
            )
        )
        if folder.parts:
            scan.unreadable.append(folder)
        return
    if problem is not None:
        scan.problems.append(Message(problem, path=readable(folder.path)))
        return
    if folder.num_pictures or folder.videos:
        scan.folders.append(folder)
    for name in natural_sort(below):
        child = Folder(os.path.join(folder.path, name), (*folder.parts, name))  # noqa: PTH118
        _scan_folder(scan, child, (*above, identity))


def _sort_entries(scan: Scan, folder: Folder) -> Iterator[str]:
    """Fill in what the folder holds, and yield the names of the folders in it."""
    pictures: dict[str, str] = {}
    with os.scandir(folder.path) as entries:
        for entry in entries:
            name = entry.name
            suffix = suffix_of(name)
            if name in OUTPUT_NAMES:
                folder.marks.add(name)
            if name[0] == ".":
                scan.num_ignored += 1
            elif _is_folder(entry):
                if name in FOREIGN_FOLDERS:
                    scan.num_ignored += 1
                else:
                    yield name
            elif suffix in PICTURE_SUFFIXES:
                pictures[name] = file_version(entry)
            elif suffix in VIDEO_SUFFIXES:
                folder.videos[name] = file_version(entry)
            else:
                scan.num_ignored += 1
    folder.num_pictures = len(pictures)
    folder.version = joined_version(pictures)


def list_pictures(path: str) -> list[str]:
    """Return the names of the pictures directly in a folder, in natural order."""
    with os.scandir(path) as entries:
        return natural_sort(entry.name for entry in entries if _is_picture(entry))


def picture_versions(path: str) -> dict[str, str]:
    """Return name and version of the pictures directly in a folder."""
    with os.scandir(path) as entries:
        return {entry.name: file_version(entry) for entry in entries if _is_picture(entry)}


def _is_picture(entry: os.DirEntry[str]) -> bool:
    is_named_so = suffix_of(entry.name) in PICTURE_SUFFIXES and entry.name[0] != "."
    return is_named_so and not _is_folder(entry)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a folder, or a link to one.

    A link to where we may not look may be one, unless it is called like a picture or a video:
    those fail when they are read.
    """
    try:
        return entry.is_dir()
    except OSError:
        return suffix_of(entry.name) not in PICTURE_SUFFIXES | VIDEO_SUFFIXES


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


def scan_place(uri: str) -> Scan:
    """Return what lies below a URI, as `scan_tree` does for a folder; one listing, no reading.

    Raises:
        SourceError: There is nothing.
        PlaceError: It cannot be listed.
    """
    place, scan = open_place(uri), Scan(uri)
    folders: dict[tuple[str, ...], Folder] = {}
    pictures: dict[tuple[str, ...], dict[str, str]] = {}
    for entry in place.list():
        *above, name = entry.key.split("/")
        parts, suffix = tuple(above), suffix_of(name)
        if any(part[:1] == "." or part in FOREIGN_FOLDERS for part in (*parts, name)):
            scan.num_ignored += 1
            continue
        folder = folders.setdefault(parts, Folder("/".join((uri, *parts)), parts))
        if name in OUTPUT_NAMES:
            folder.marks.add(name)
        if suffix in PICTURE_SUFFIXES:
            pictures.setdefault(parts, {})[name] = entry.version
        elif suffix in VIDEO_SUFFIXES:
            folder.videos[name] = entry.version
        else:
            scan.num_ignored += 1
    if not folders and not scan.num_ignored:
        raise SourceError("{uri}: there is nothing; look at its name, and at the bucket's", uri=uri)
    ours = [parts for parts, folder in folders.items() if parts and _is_output(place, folder)]
    scan.problems += [Message(_WRITTEN_BY_US, path=folders[parts].path) for parts in ours]
    by_name = {"/".join(parts): parts for parts in folders}
    for parts in (by_name[name] for name in natural_sort(by_name)):
        folder = folders[parts]
        folder.num_pictures = len(pictures.get(parts, ()))
        folder.version = joined_version(pictures.get(parts, {}))
        is_ours = any(parts[: len(above)] == above for above in ours)
        if not is_ours and (folder.num_pictures or folder.videos):
            scan.folders.append(folder)
    return scan


def _is_output(place: Place, folder: Folder) -> bool:
    """Return whether posemill wrote a folder, as `files.is_output` does."""
    if OUTPUT_MARK in folder.marks:
        return True
    return any(
        word in next(place.read("/".join((*folder.parts, name))), b"")[: 1 << 16]
        for name, word in OWN_FILES.items()
        if name in folder.marks
    )


def list_place(uri: str, version: str) -> dict[str, Entry]:
    """Return the pictures directly in a folder at a URI by their names, in natural order.

    Raises:
        DecodeError: There are none.
        ChangedError: They are not those of which `scan_place` took the version.
    """
    found = {
        each.key: each
        for each in open_place(uri).list()
        if "/" not in each.key and each.key[0] != "." and suffix_of(each.key) in PICTURE_SUFFIXES
    }
    if not found:
        raise_decode_error(uri, "missing", "there are no pictures at this place")
    if version and joined_version({name: found[name].version for name in found}) != version:
        raise ChangedError("{uri}: its pictures were changed since they were listed", uri=uri)
    return {name: found[name] for name in natural_sort(found)}
