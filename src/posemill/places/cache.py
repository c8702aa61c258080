"""Objects as files of this machine: fetched once, checked by their hashes at every use."""

from __future__ import annotations

import hashlib
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from posemill.errors import PlaceError
from posemill.files import atomic_folder, cache_folder, parse_json, safe_parts, sha256_of
from posemill.machine.locks import exclusive_lock
from posemill.places import Entry, open_place, split_uri

_AT_ONCE = 8


def fetched(uri: str) -> Path:
    """Return the file of an object, or the folder of all below a URI, as they are there now.

    Raises:
        PlaceError: There is nothing, or it cannot be had.
    """
    place, name = split_uri(uri)
    entry = place.look(name)
    if entry is not None:
        entries, paths = [entry], [name]
    else:
        place = open_place(uri)
        entries = list(place.list())
        paths = ["/".join(safe_parts(each.key)) for each in entries]
    if not entries:
        raise PlaceError("{uri}: there is nothing; expected an object, or some below it", uri=uri)
    versions = "\n".join(f"{each.key} {each.version}" for each in entries)
    copies = cache_folder() / "objects" / _digest(uri)
    folder = copies / _digest(versions)
    copies.mkdir(parents=True, exist_ok=True)
    hashes = folder.with_suffix(".json")
    with exclusive_lock(copies / ".lock"):
        if not _is_whole(folder, hashes):
            for old in copies.iterdir():
                shutil.rmtree(old, ignore_errors=True)
            with atomic_folder(folder, marker="") as temporary:

                def fetch(each: Entry, path: str) -> None:
                    target = temporary / path
                    target.parent.mkdir(parents=True, exist_ok=True)
                    place.fetch(each.key, target, version=each.version)
                    if target.stat().st_size != each.num_bytes:
                        raise PlaceError(
                            "{name}: what came is not what the service says it has; try again",
                            name=place.name_of(each.key),
                        )

                with ThreadPoolExecutor(_AT_ONCE) as pool:
                    list(pool.map(fetch, entries, paths))
                digests = {path: sha256_of(temporary / path) for path in paths}
                hashes.write_text(json.dumps(digests))
    return folder if entry is None else folder / name


def _is_whole(folder: Path, hashes: Path) -> bool:
    try:
        digests = parse_json(hashes.read_bytes())
        return all(sha256_of(folder / path) == digest for path, digest in digests.items())
    except (OSError, ValueError):
        return False


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
