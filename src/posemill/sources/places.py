"""Sources at a URI: listing objects as folders of pictures and videos, page by page."""

from __future__ import annotations

from posemill.decoders.opening import raise_decode_error
from posemill.errors import SourceError
from posemill.files import OUTPUT_MARK, OUTPUT_NAMES, OWN_FILES
from posemill.messages import Message
from posemill.places import ChangedError, Entry, Place, open_place
from posemill.sources.names import PICTURE_SUFFIXES, VIDEO_SUFFIXES, natural_sort, suffix_of
from posemill.sources.scan import FOREIGN_FOLDERS, Folder, Scan, joined_version


def scan_place(uri: str) -> Scan:
    """Return what lies below a URI, as `scan_tree` does for a folder; one listing, no reading.

    Raises:
        SourceError: There is nothing.
        PlaceError: It cannot be listed.
    """
    place, scan = open_place(uri), Scan(uri)
    pictures: dict[tuple[str, ...], dict[str, str]] = {}
    folders = _folders_of(place, scan, pictures)
    if not folders and not scan.num_ignored:
        raise SourceError("{uri}: there is nothing; look at its name, and at the bucket's", uri=uri)
    ours = [parts for parts, folder in folders.items() if parts and _is_output(place, folder)]
    by_name = {"/".join(parts): parts for parts in folders}
    for parts in (by_name[name] for name in natural_sort(by_name)):
        folder = folders[parts]
        if any(parts[: len(each)] == each for each in ours):
            if parts in ours:
                scan.problems.append(
                    Message("{path!r} was written by posemill; left out", path=folder.path)
                )
        elif parts in pictures or folder.videos:
            folder.num_pictures = len(pictures.get(parts, ()))
            folder.version = joined_version(pictures.get(parts, {}))
            scan.folders.append(folder)
    return scan


def _folders_of(
    place: Place, scan: Scan, pictures: dict[tuple[str, ...], dict[str, str]]
) -> dict[tuple[str, ...], Folder]:
    """Return the folders by the names that lead to them; `pictures` gets names and versions."""
    folders: dict[tuple[str, ...], Folder] = {}
    for entry in place.list():
        *above, name = entry.key.split("/")
        parts, suffix = tuple(above), suffix_of(name)
        if any(part[:1] == "." or part in FOREIGN_FOLDERS for part in (*parts, name)):
            scan.num_ignored += 1
            continue
        folder = folders.setdefault(parts, Folder("/".join((scan.root, *parts)), parts))
        if name in OUTPUT_NAMES:
            folder.marks.add(name)
        if suffix in PICTURE_SUFFIXES:
            pictures.setdefault(parts, {})[name] = entry.version
        elif suffix in VIDEO_SUFFIXES:
            folder.videos[name] = entry.version
        else:
            scan.num_ignored += 1
    return folders


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
