"""Long listings that go on where they were cut off, in the next process too.

What was listed is kept in the cache, page by page, till the end is reached. A listing that goes on
is one that took longer: what is put into the part that was listed meanwhile is found by the next
one, and a run notices then that its source has grown; what was changed or deleted there is a
failure with its reason when it is read. After an hour a listing begins anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO

from posemill.files import cache_folder
from posemill.machine.locks import try_lock
from posemill.places import Entry, Storage

_PAGE = 10_000  # objects; shorter listings are not kept
_MOST_SECONDS = 3600.0


def all_entries(storage: Storage, notes: list[str]) -> Iterator[Entry]:
    """Yield all objects of a place in the order of their keys.

    Args:
        storage: The place.
        notes: Gets a sentence where an earlier listing goes on.
    """
    path = _path_of(storage)
    with ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = stack.enter_context(path.open("a+b"))
            is_ours = try_lock(handle.fileno())
        except OSError:  # a cache that cannot be written, or has no locks
            is_ours = False
        if not is_ours:
            yield from storage.entries()
            return
        last, number = "", 0
        for entry in _kept(handle):
            last, number = entry.key, number + 1
            yield entry
        if number:
            notes.append(f"its listing was cut off before; it goes on behind {number} objects")
        yield from _keeping(storage.entries(after=last), handle)
        path.unlink(missing_ok=True)


def _path_of(storage: Storage) -> Path:
    place = f"{storage.uri}\n{os.environ.get('AWS_ENDPOINT_URL', '')}"
    name = hashlib.sha256(place.encode()).hexdigest()[:16]
    return cache_folder() / "listings" / f"{name}.jsonl"


def _kept(handle: BinaryIO) -> Iterator[Entry]:
    """Yield what an earlier listing has kept; a line that was cut off goes."""
    is_old = time.time() - os.fstat(handle.fileno()).st_mtime > _MOST_SECONDS
    whole = 0
    handle.seek(0)
    for line in () if is_old else handle:
        try:
            entry = Entry(*json.loads(line))
        except (ValueError, TypeError):
            break
        whole += len(line)
        yield entry
    handle.truncate(whole)


def _keeping(entries: Iterator[Entry], handle: BinaryIO) -> Iterator[Entry]:
    page: list[Entry] = []
    for entry in entries:
        yield entry
        page.append(entry)
        if len(page) == _PAGE:
            with suppress(OSError):  # a full disk: what is kept so far is whole
                handle.write(b"".join(json.dumps(each).encode() + b"\n" for each in page))
                handle.flush()
            page = []
