"""Objects as files of this machine: fetched once, checked by their hashes at every use."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from posemill.errors import PlaceError
from posemill.files import atomic_path, cache_folder, parse_json, safe_parts, sha256_of
from posemill.machine.locks import exclusive_lock
from posemill.places import Entry, Place, open_place, split_uri

_AT_ONCE = 8
_MD5 = re.compile(r'"?([0-9a-f]{32})"?')


def fetched(uri: str) -> Path:
    """Return the file of an object, or the folder of all below a URI, brought up to date."""
    place, name = split_uri(uri)
    folder = cache_folder() / "objects" / hashlib.sha256(uri.encode()).hexdigest()[:16]
    target, entry = folder / name, place.look(name)
    paths = {entry: target} if entry else {}
    if entry is None:
        place = open_place(uri)
        paths = {each: target.joinpath(*safe_parts(each.key)) for each in place.list()}
    if not paths:
        raise PlaceError("{uri}: there is nothing; expected an object, or some below it", uri=uri)
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(folder / ".lock"):
        _bring_up_to_date(place, paths, folder / ".index.json")
        for path in target.rglob("*"):  # what is no longer there is no part of it
            if path.is_file() and path not in paths.values():
                path.unlink()
    return target


def _bring_up_to_date(place: Place, paths: Mapping[Entry, Path], index: Path) -> None:
    known = parse_json(index.read_bytes()) if index.exists() else {}

    def digest_of(entry: Entry) -> tuple[str, tuple[str, str]]:
        path = paths[entry]
        version, digest = known.get(entry.key, ("", ""))
        if version != entry.version or not path.is_file() or sha256_of(path) != digest:
            path.parent.mkdir(parents=True, exist_ok=True)
            _fetch_checked(place, entry, path)
            digest = sha256_of(path)
        return entry.key, (entry.version, digest)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        content = json.dumps(dict(pool.map(digest_of, paths)))
    with atomic_path(index) as temporary:
        temporary.write_text(content)


def _fetch_checked(place: Place, entry: Entry, path: Path) -> None:
    """Fetch an object and see that it came whole.

    An etag is the MD5 of the content mostly. Where it is not (encryption by a key of the service
    has such etags too), the same content twice is the content.
    """
    place.fetch(entry.key, path, version=entry.version)
    etag = _MD5.fullmatch(entry.version)
    is_whole = path.stat().st_size == entry.num_bytes
    if is_whole and etag and _md5_of(path) != etag[1]:
        first = sha256_of(path)
        place.fetch(entry.key, path, version=entry.version)
        is_whole = sha256_of(path) == first
    if not is_whole:
        path.unlink()
        template = "{name}: what came is not what the service says it has; try again"
        raise PlaceError(template, name=place.name_of(entry.key))


def _md5_of(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, partial(hashlib.md5, usedforsecurity=False)).hexdigest()
