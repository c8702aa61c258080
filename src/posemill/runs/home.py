"""Where a run is, and where this machine works for it.

A run that lies elsewhere has a copy here, `<cache>/runs/<name>/run`: an ordinary run folder whose
ledger follows the run's records and whose shards are fetched when they are read. It can be deleted
at any time. Beside it, `origin.json` says where the run is.
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
from dataclasses import asdict, dataclass
from pathlib import Path

from posemill.errors import RunError, StoppedError
from posemill.files import atomic_path, parse_json
from posemill.machine.live_files import now_text, read_live
from posemill.machine.locks import exclusive_lock, try_lock
from posemill.messages import Message
from posemill.places import Place, open_place, uri_of
from posemill.places.cache import fetched
from posemill.places.folders import FolderPlace, is_shared
from posemill.places.lease import PATIENCE_SECONDS, Holder, Lease, LeaseState, read_lease, worked_on
from posemill.runs.ledger import Ledger
from posemill.runs.manifest import (
    LEDGER_NAME,
    LOCK_NAME,
    MANIFEST_NAME,
    ORIGIN_NAME,
    SHARDS_NAME,
    Manifest,
    copies_folder,
    foreign_place,
    is_copy,
    not_a_run,
    shard_path,
)
from posemill.runs.queries import read_ledger
from posemill.runs.records import PREFIX, SNAPSHOTS, RecordLog
from posemill.terminal import warn_once

_AHEAD = 32  # shards fetched at once, those that are read next
_AT_ONCE = 16
_LOCK_TRIES = 10
_INDEX_LOCK = "index.lock"  # beside a copy


@dataclass(frozen=True)
class RunHome:
    """Where a run is, and where this machine works for it."""

    work: Path  # the run's folder itself, or the copy
    place: Place
    copy_id: str = ""  # empty where `work` is the run itself

    @classmethod
    def at(cls, path: str | os.PathLike[str], kind: str = "auto") -> RunHome:
        """Return the home of the run that a path means; a copy is brought up to date.

        The folder of a copy is taken as it is. `kind` is that of a run to be: `local`, `shared`, or
        `auto`, by the type of the folder's mount; one that is there is what it is.
        """
        if uri_of(path) is None and is_copy(Path(path)):
            return cls._of_copy(Path(path))
        place = open_place(path)
        if not _is_kept_as_records(place, path, kind):
            return cls(Path(path), place)
        home = cls._of_copy(_folder_for(place))
        with exclusive_lock(home.work.with_name(_INDEX_LOCK)):
            if holder_of(home.work) is None:  # whose ledger is current
                home._refresh()
        return home

    @classmethod
    def existing(cls, path: str | os.PathLike[str]) -> RunHome:
        """Return `at`; raise where a run is elsewhere and there is none."""
        home = cls.at(path)
        if not home.is_here and not (home.work / MANIFEST_NAME).exists():
            raise not_a_run(home.name)
        return home

    @classmethod
    def _of_copy(cls, folder: Path) -> RunHome:
        path = folder.absolute().parent / ORIGIN_NAME
        try:
            origin = parse_json(path.read_bytes())
            return cls(folder, open_place(str(origin["uri"])), str(origin["id"]))
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise RunError(
                "{path} does not say where the run is ({error}); delete {folder}: it is a copy",
                path=path,
                error=error,
                folder=folder.parent,
            ) from error

    @property
    def is_here(self) -> bool:
        """Whether the run is the folder that this machine works in."""
        return not self.copy_id

    @property
    def name(self) -> str:
        """What users call it."""
        return str(self.work) if self.is_here else self.place.name_of()

    @property
    def address(self) -> str:
        """By which a worker on any machine opens the place: a folder, or a URI."""
        return str(self.work) if self.is_here else self.place.uri

    @property
    def folder_to_see(self) -> Path | None:
        """What every machine at work has to see; None if none is needed."""
        return self.place.root if isinstance(self.place, FolderPlace) else None

    def holder(self) -> Holder | None:
        """Return who works on the run, None if nobody does; to be shown: it compares two clocks."""
        holder = holder_of(self.work)
        if holder is None and not self.is_here and (lease := read_lease(self.place)):
            is_fresh = time.time() - lease.written_at < 2 * PATIENCE_SECONDS
            holder = lease if is_fresh and not lease.is_released else None
        return holder

    @contextmanager
    def owned(self, stop_signal: Callable[[], int] = lambda: 0) -> Iterator[RecordLog | None]:
        """Be the only one who works on the run: by a lock here, and by a lease elsewhere.

        Yields what the events of a run elsewhere go through; None for a run of this machine.
        `stop_signal` is asked while a lease is waited for; another number than 0 ends the wait.
        """
        with run_lock(self.work):
            if self.is_here:
                yield None
                return
            ours = ("lease/", PREFIX, SNAPSHOTS, f"{SHARDS_NAME}/")
            for entry in () if self.place.look(MANIFEST_NAME) else self.place.list():
                if not entry.key.startswith(ours):
                    raise foreign_place(self.name, entry.key)

            def wait(holder: LeaseState) -> None:
                warn_once(
                    Message(
                        "{run} was last worked on by {holder}, which did not give it back; "
                        "waiting {seconds:.0f} s to see whether it still works",
                        run=self.name,
                        holder=holder.describe(),
                        seconds=PATIENCE_SECONDS,
                    )
                )
                if signal := stop_signal():
                    raise StoppedError(signal, self.name)

            lease = Lease(self.place, self.copy_id, live=lambda: read_live(self.work), on_wait=wait)
            try:
                with exclusive_lock(self.work.with_name(_INDEX_LOCK)):
                    self._refresh()
                    records = RecordLog(self.place, lease.epoch)
                    with closing(Ledger(self.work / LEDGER_NAME)) as ledger:
                        records.take_over(ledger)
                yield records
            finally:
                lease.release()

    def _refresh(self) -> None:
        """Bring manifest and ledger to where the run is; one of another run is thrown away."""
        manifest, path = self.place.get(MANIFEST_NAME), self.work / MANIFEST_NAME
        if manifest is None or not path.exists() or path.read_bytes() != manifest:
            for name in (MANIFEST_NAME, LEDGER_NAME, f"{LEDGER_NAME}-wal", f"{LEDGER_NAME}-shm"):
                (self.work / name).unlink(missing_ok=True)
            shutil.rmtree(self.work / SHARDS_NAME, ignore_errors=True)
        if manifest is None:
            return
        records = RecordLog(self.place)
        try:
            records.fetch_snapshot(self.work / LEDGER_NAME)
            with closing(Ledger(self.work / LEDGER_NAME)) as ledger:
                records.follow(ledger)
        except sqlite3.DatabaseError:
            if not path.exists():
                raise
            path.unlink()  # the copy is damaged, and made anew
            self._refresh()
        with atomic_path(path) as temporary:  # last: a copy that has it is whole
            temporary.write_bytes(manifest)

    def write_manifest(self, manifest: Manifest) -> None:
        """Write a manifest into the folder here, and where the run is."""
        manifest.write(self.work)
        if not self.is_here:
            self.place.put(MANIFEST_NAME, (self.work / MANIFEST_NAME).read_bytes())

    def shard(self, path: Path) -> Path:
        """Return where a shard can be read: as it is, or fetched, with those that come after it."""
        if self.is_here or path.exists():
            return path
        if isinstance(self.place, FolderPlace):
            return self.place.root / SHARDS_NAME / path.name
        with read_ledger(self.work) as ledger:
            rows = ledger.execute(
                "SELECT name FROM shards WHERE shard_no >= "
                "(SELECT shard_no FROM shards WHERE name = ?) ORDER BY shard_no LIMIT ?",
                (path.name, _AHEAD),
            ).fetchall()
        path.parent.mkdir(exist_ok=True)
        targets = [shard_path(self.work, name) for (name,) in rows]
        missing = [target for target in targets if not target.exists()]
        keys = [f"{SHARDS_NAME}/{target.name}" for target in missing]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self.place.fetch, keys, missing))
        return path

    def shard_sizes(self) -> dict[str, int]:
        """Return name and bytes of all shards that lie at the place, hidden files among them."""
        if self.is_here:  # what a killed worker was writing has a name with a dot
            folder = self.work / SHARDS_NAME
            return {entry.name: entry.stat().st_size for entry in os.scandir(folder)}
        entries = self.place.list(f"{SHARDS_NAME}/")
        return {entry.key.partition("/")[2]: entry.num_bytes for entry in entries}


def local_copy(path: Path) -> Path:
    """Return where a run, or a file or folder of any kind, can be read on this machine."""
    uri = uri_of(path)
    if uri is None or open_place(uri).look(MANIFEST_NAME) is not None:
        return RunHome.at(path).work
    return fetched(uri)


def _is_kept_as_records(place: Place, path: str | os.PathLike[str], kind: str) -> bool:
    if not isinstance(place, FolderPlace):
        return True
    is_here = (place.root / LEDGER_NAME).exists()
    if uri_of(path) is None:
        has_records, is_free = (place.root / PREFIX).is_dir(), kind != "local" and not is_here
        return has_records or (is_free and (kind == "shared" or is_shared(place.root)))
    if is_here:
        template = "{uri} is a run of this machine; name it by its path: {folder}"
        raise RunError(template, uri=place.uri, folder=place.root)
    return True


def _folder_for(place: Place) -> Path:
    """Return the folder for a run's copy, made if it is new; each host has its own."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", place.uri)[-40:].strip("-")
    digest = hashlib.sha256(f"{place.uri}\n{socket.gethostname()}".encode()).hexdigest()[:16]
    folder = copies_folder() / f"{words}-{digest}" / "run"
    folder.mkdir(parents=True, exist_ok=True)
    origin = folder.parent / ORIGIN_NAME
    if not origin.exists():
        with atomic_path(origin) as temporary:
            temporary.write_text(json.dumps({"uri": place.uri, "id": uuid.uuid4().hex}))
    return folder


@contextmanager
def run_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a run for the block. A dead holder's lock is free by itself."""
    path = folder / LOCK_NAME
    with path.open("a+", encoding="utf-8") as file:  # closing it frees the lock
        try:
            for _ in range(_LOCK_TRIES):  # `status` and the like have it for an instant to ask
                if try_lock(file.fileno()):
                    break
                time.sleep(0.01)
            else:
                raise worked_on(str(folder), _read_holder(path))
        except OSError as error:
            raise RunError(
                "{folder}: its file system cannot lock files ({reason}); put the run on another "
                "disk",
                folder=folder,
                reason=error.strerror,
            ) from error
        file.truncate(0)
        holder = Holder(os.getpid(), socket.gethostname(), now_text())
        file.write(f"{json.dumps(asdict(holder))}\n")
        file.flush()
        yield


def holder_of(folder: Path) -> Holder | None:
    """Return who works on a run now, None if nobody does."""
    path = folder / LOCK_NAME  # its text counts only while it is locked: the dead leave theirs
    try:
        # To ask takes no more than reading: the run may be another user's, or an archive.
        with path.open("rb") as file:
            # Shared: refused while the run is worked on, and two who ask do not see each other.
            is_free = try_lock(file.fileno(), is_shared=True)
            return None if is_free else _read_holder(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunError(
            "{path}: cannot tell whether somebody works on the run ({reason}); ask as the user and "
            "on the machine that started extract",
            path=path,
            reason=error.strerror or error,
        ) from error


def _read_holder(path: Path) -> Holder:
    """Return what the holder wrote; it does so right after it has the lock."""
    for _ in range(50):
        try:
            return Holder(**parse_json(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError):
            time.sleep(0.01)
    return Holder(0, "an unknown host", "an unknown time")
