"""A run that lies elsewhere, as this machine has it: `<cache>/runs/<name>/run` is an ordinary run.

Its ledger is built from the run's records and follows them; its shards are fetched when they are
read. All of it can be deleted at any time. Beside it, `origin.json` says where the run is.

Who works on a run (`writing`) holds the lock of its folder here, as of any other, and the lease at
its place. Whoever reads it does not write into a folder that is worked on: its ledger is current.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

from posemill.errors import RunError
from posemill.files import atomic_path, parse_json
from posemill.machine.live_files import read_live
from posemill.machine.locks import exclusive_lock
from posemill.storage import Storage, open_storage, uri_of
from posemill.storage.cache import fetched
from posemill.storage.folders import FolderStorage, is_shared
from posemill.storage.lease import PATIENCE_SECONDS, Lease, LeaseState, read_lease
from posemill.stores.commits import create_ledger
from posemill.stores.lock import holder_of
from posemill.stores.manifest import (
    LEDGER_NAME,
    MANIFEST_NAME,
    ORIGIN_NAME,
    SHARDS_NAME,
    copies_folder,
    is_copy,
)
from posemill.stores.records import PREFIX, RecordLog

_AHEAD = 32  # shards fetched at once, those that are read next
_AT_ONCE = 16


def storage_for(path: str | os.PathLike[str], kind: str = "auto") -> Storage | None:
    """Return the storage of a run that is kept as records; None for a folder of this machine.

    Args:
        path: A URI, or a folder.
        kind: Of a run to be: `local`, `shared`, or `auto`, by the type of the folder's mount. One
            that is there is what it is.
    """
    if uri_of(path) is not None:
        storage = open_storage(path)
        if isinstance(storage, FolderStorage) and (storage.root / LEDGER_NAME).exists():
            raise RunError(
                f"{storage.uri} is a run of this machine; name it by its path: {storage.root}"
            )
        return storage
    folder = Path(path)
    if (folder / PREFIX).is_dir():
        return open_storage(folder)
    is_begun = (folder / LEDGER_NAME).exists()
    wants = kind == "shared" or (kind == "auto" and not is_begun and is_shared(folder))
    return open_storage(folder) if wants and not is_begun else None


def local_run(path: str | os.PathLike[str], kind: str = "auto") -> Path:
    """Return the folder of a run on this machine, brought up to date where the run is elsewhere."""
    storage = storage_for(path, kind)
    if storage is None:
        return Path(path)
    folder = _folder_of(storage)
    with exclusive_lock(folder.parent / "index.lock"):
        if holder_of(folder) is None:
            _refresh(folder, storage)
    return folder


def existing_run(path: str | os.PathLike[str]) -> Path:
    """Return `local_run`; raise where a run is elsewhere and there is none."""
    folder = local_run(path)
    if folder != Path(path) and not (folder / MANIFEST_NAME).exists():
        raise RunError(
            f"{place_name(folder)} is not a posemill run: it has no {MANIFEST_NAME}; make one "
            "with: posemill extract SOURCE --out RUN"
        )
    return folder


def local_copy(path: Path) -> Path:
    """Return where a run, or a file or folder of any kind, can be read on this machine."""
    uri = uri_of(path)
    if uri is None or open_storage(uri).look(MANIFEST_NAME) is not None:
        return local_run(path)
    return fetched(uri)


def lease_of(folder: Path) -> LeaseState | None:
    """Return who works on a run elsewhere, as far as one can see; None if nobody does.

    A lease that was not written for long counts as nobody's: only to be shown, since it compares
    two clocks.
    """
    origin = origin_of(folder)
    lease = None if origin is None else read_lease(origin[0])
    if lease is None or lease.is_released:
        return None
    return lease if time.time() - lease.written_at < 2 * PATIENCE_SECONDS else None


def origin_of(folder: Path) -> tuple[Storage, str] | None:
    """Return where the run of a folder really is, and the name of this copy; None if it is here."""
    if not is_copy(folder):
        return None
    path = folder.parent / ORIGIN_NAME
    try:
        origin = parse_json(path.read_bytes())
        return open_storage(str(origin["uri"])), str(origin["id"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RunError(
            f"{path} does not say where the run is ({error}); delete {folder.parent}: it is a copy"
        ) from error


def folder_to_see(folder: Path) -> Path | None:
    """Return the folder of a run that every machine at work has to see; None if none is needed."""
    origin = origin_of(folder)
    if origin is None:
        return folder
    return origin[0].root if isinstance(origin[0], FolderStorage) else None


def place_name(folder: Path) -> str:
    """Return what users call a run: where it really is."""
    origin = origin_of(folder)
    return str(folder) if origin is None else origin[0].name_of("")


def _folder_of(storage: Storage) -> Path:
    """Return the folder for a run's copy, made if it is new; each host has its own."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", storage.uri)[-40:].strip("-")
    digest = hashlib.sha256(f"{storage.uri}\n{socket.gethostname()}".encode()).hexdigest()[:16]
    folder = copies_folder() / f"{words}-{digest}" / "run"
    folder.mkdir(parents=True, exist_ok=True)
    origin = folder.parent / ORIGIN_NAME
    if not origin.exists():
        with atomic_path(origin) as temporary:
            temporary.write_text(json.dumps({"uri": storage.uri, "id": uuid.uuid4().hex}))
    return folder


def _refresh(folder: Path, storage: Storage) -> None:
    """Bring manifest and ledger to where the run is; one of another run is thrown away."""
    manifest, path = storage.get(MANIFEST_NAME), folder / MANIFEST_NAME
    if manifest is None or not path.exists() or path.read_bytes() != manifest:
        for name in (MANIFEST_NAME, LEDGER_NAME, f"{LEDGER_NAME}-wal", f"{LEDGER_NAME}-shm"):
            (folder / name).unlink(missing_ok=True)
        shutil.rmtree(folder / SHARDS_NAME, ignore_errors=True)
    if manifest is None:
        return
    with open_index(folder) as database:
        RecordLog(storage).follow(database)
    with atomic_path(path) as temporary:  # last: a copy that has it is whole
        temporary.write_bytes(manifest)


@contextmanager
def open_index(folder: Path) -> Iterator[sqlite3.Connection]:
    """Yield the ledger of a copy, made if it is not there."""
    path = folder / LEDGER_NAME
    if not path.exists():
        create_ledger(path, has_units=True)
    with closing(sqlite3.connect(path, isolation_level=None, timeout=60)) as database:
        yield database


@contextmanager
def writing(
    folder: Path, *, on_wait: Callable[[LeaseState, float], None] | None = None
) -> Iterator[RecordLog | None]:
    """Hold the lease of a run while it is worked on; yield what its commits go through.

    None for a run of this machine, whose lock is enough. The folder's lock must be held.

    Raises:
        RunError: Somebody works on it on another machine.
    """
    origin = origin_of(folder)
    if origin is None:
        yield None
        return
    storage, owner = origin
    _refuse_foreign(storage)
    lease = Lease(storage, owner, live=lambda: read_live(folder), on_wait=on_wait)
    try:
        with exclusive_lock(folder.parent / "index.lock"):
            _refresh(folder, storage)
            records = RecordLog(storage, lease.epoch)
            with open_index(folder) as database:
                records.take_over(database)
        yield records
    finally:
        lease.release()


def _refuse_foreign(storage: Storage) -> None:
    """Raise where something lies at the place that is no run of ours."""
    own = ("lease/", PREFIX, f"{SHARDS_NAME}/")
    if storage.look(MANIFEST_NAME) is not None:
        return
    for entry in storage.entries():
        if not entry.key.startswith(own):
            raise RunError(
                f"{storage.name} is not empty and not a posemill run (it holds {entry.key!r}); "
                "nothing was touched: choose another place"
            )


def publish_manifest(folder: Path) -> None:
    """Put the manifest of a run where the run is."""
    origin = origin_of(folder)
    if origin is not None:
        origin[0].put(MANIFEST_NAME, (folder / MANIFEST_NAME).read_bytes())


def shard_file(folder: Path, path: Path) -> Path:
    """Return where a shard can be read: as it is, or fetched, with those that come after it."""
    if path.exists():
        return path
    origin = origin_of(folder)
    if origin is None:
        return path
    storage = origin[0]
    if isinstance(storage, FolderStorage):
        return storage.root / SHARDS_NAME / path.name
    with closing(sqlite3.connect(folder / LEDGER_NAME, timeout=60)) as database:
        names = [name for (name,) in database.execute(
            "SELECT name FROM shards WHERE shard_no >= (SELECT shard_no FROM shards WHERE name = ?)"
            " ORDER BY shard_no LIMIT ?", (path.name, _AHEAD))]  # fmt: skip
    missing = [name for name in names if not (path.parent / name).exists()]
    path.parent.mkdir(exist_ok=True)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda name: storage.fetch(f"{SHARDS_NAME}/{name}", path.parent / name),
                      missing))  # fmt: skip
    return path


def forget_shard(folder: Path, path: Path) -> bool:
    """Remove the copy of a shard, so that it is fetched anew; return whether it was one."""
    if not is_copy(folder) or path.parent.parent != folder or not path.exists():
        return False
    path.unlink()
    return True


class ShardFolder:
    """The shards of a run where they really are.

    Args:
        place: The run's folder, or its URI: a worker on another machine has no copy of it.
    """

    def __init__(self, place: Path | str) -> None:
        self._folder = Path(place) / SHARDS_NAME
        self._storage: Storage | None = None
        if uri_of(place) is not None:
            self._storage = open_storage(place)

    def write(self, name: str, content: bytes | memoryview) -> None:
        """Write a shard, whole or not at all."""
        if self._storage is not None:
            self._storage.put(f"{SHARDS_NAME}/{name}", bytes(content))
            return
        with atomic_path(self._folder / name) as temporary, temporary.open("wb") as handle:
            handle.write(content)

    def sizes(self) -> dict[str, int]:
        """Return name and bytes of all that is there."""
        if self._storage is None:
            return {entry.name: entry.stat().st_size for entry in os.scandir(self._folder)}
        entries = self._storage.entries(f"{SHARDS_NAME}/")
        return {entry.key.partition("/")[2]: entry.num_bytes for entry in entries}

    def remove(self, name: str) -> None:
        """Remove a shard."""
        if self._storage is None:
            (self._folder / name).unlink(missing_ok=True)
        else:
            self._storage.delete(f"{SHARDS_NAME}/{name}")


def shards_place(folder: Path) -> str:
    """Return what `ShardFolder` needs to know of a run's folder, on any machine."""
    origin = origin_of(folder)
    return str(folder) if origin is None else origin[0].uri
