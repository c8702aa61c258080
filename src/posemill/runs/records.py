"""The events of a run as objects: `records/0000000001.json.gz` and so on, each created once.

Any machine can build the ledger from them, in their order. A new writer's first record is empty: it
takes the number that the old one, wherever it is, would need for its next. So a writer that was cut
off and comes back cannot commit anything: the key is taken.

`snapshots/0000001000.sqlite.gz` is the ledger as of record 1000, with which those begin who know
nothing of the run. Whoever writes it, it is the same: the records before it never change.
"""

from __future__ import annotations

import gzip
import io
import itertools
import json
import shutil
import sqlite3
import tempfile
import uuid
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from posemill.errors import RunError
from posemill.files import atomic_path, parse_json
from posemill.places import Place
from posemill.runs.events import Event, from_json, to_json
from posemill.runs.ledger import Ledger

PREFIX = "records/"
SNAPSHOTS = "snapshots/"
SNAPSHOT_EVERY = 1000
_VERSION = 1
_AT_ONCE = 16  # requests side by side; a page of records is in memory
_PAGE = 256
_MOST_BYTES = 256 << 20  # of one record, unpacked
_CORRUPT = (OSError, EOFError, ValueError, zlib.error)
_MOST_TIMES = 200  # that a snapshot may be larger when it is unpacked


class RecordLog:
    """The records of a run, and the ledger that follows them; written under a lease's epoch."""

    def __init__(self, place: Place, epoch: int = 0) -> None:
        self.place, self.epoch = place, epoch
        self._writer = uuid.uuid4().hex

    def follow(self, ledger: Ledger) -> int:
        """Bring a ledger to where the records are; return how many there were to add."""
        first = at = ledger.number
        keys = self._keys_after(first)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            while page := [*itertools.islice(keys, _PAGE)]:
                contents = [*pool.map(self._get, page)]
                with ledger.transaction(at + len(page)):
                    for number, content in enumerate(contents, start=at + 1):
                        self._apply(ledger, content, number)
                at += len(page)
        return at - first

    def _apply(self, ledger: Ledger, content: bytes, number: int) -> None:
        _, events = self._parse(content, number)
        try:
            for event in events:
                ledger.apply(event)
        except sqlite3.OperationalError:
            raise  # the disk, not the record
        except (sqlite3.Error, RunError, OverflowError, TypeError) as error:
            raise self._damaged(number, error) from error

    def _keys_after(self, number: int) -> Iterator[str]:
        entries = self.place.list(PREFIX, after=_key(number) if number else "")
        for next_number, entry in enumerate(entries, start=number + 1):
            if entry.key != _key(next_number):
                raise RunError(
                    "{record} is missing, but there is {key}; put it back from a "
                    "copy: what follows rests on it",
                    record=self.place.name_of(_key(next_number)),
                    key=entry.key,
                )
            yield entry.key

    def _get(self, key: str) -> bytes:
        return b"".join(self.place.read(key))

    def _parse(self, content: bytes, number: int) -> tuple[int, list[Event]]:
        try:
            record = parse_json(b"".join(_unpacked(content, _MOST_BYTES)))
            if record["posemill_record"] != _VERSION or record["number"] != number:
                raise ValueError(f"version {record['posemill_record']}, number {record['number']}")
            return int(record["epoch"]), [from_json(event) for event in record["events"]]
        except (*_CORRUPT, LookupError, TypeError, AttributeError) as error:
            raise self._damaged(number, error) from error

    def _damaged(self, number: int, error: Exception) -> RunError:
        return RunError(
            "{record} is damaged, or of another version of posemill ({error}); "
            "put back a copy of it",
            record=self.place.name_of(_key(number)),
            error=error,
        )

    def take_over(self, ledger: Ledger) -> None:
        """Write the empty record that shuts out every writer before; the ledger is current then.

        Refused where a later epoch has written: this one slept since it got its lease.
        """
        while True:
            self.follow(ledger)
            number = ledger.number
            if number and self._parse(self._get(_key(number)), number)[0] > self.epoch:
                raise self._taken_over()
            if self._create([], number + 1):
                with ledger.transaction(number + 1):
                    return

    def _taken_over(self) -> RunError:
        return RunError(
            "{place} was taken over by another process while this one was cut off or asleep; "
            "nothing was committed twice: look with: posemill status {place!q}",
            place=self.place.name_of(),
        )

    def publish(self, events: Sequence[Event], number: int) -> None:
        """Write events as that record; the ledger may be committed then, unless this raises."""
        if not self._create(events, number):
            raise self._taken_over()

    def _create(self, events: Sequence[Event], number: int) -> bool:
        record = {
            "posemill_record": _VERSION,
            "number": number,
            "epoch": self.epoch,
            "writer": self._writer,
            "events": [to_json(event) for event in events],
        }
        text = json.dumps(record, separators=(",", ":")).encode()
        return self.place.create(_key(number), gzip.compress(text, compresslevel=5, mtime=0))

    def put_snapshot(self, ledger: Ledger, number: int) -> None:
        """Put the ledger as it is after that record, for those who would have to read them all."""
        with tempfile.TemporaryDirectory(prefix="posemill-") as folder:
            path, packed = Path(folder) / "ledger.sqlite", io.BytesIO()
            ledger.copy_to(path)
            with path.open("rb") as source, gzip.open(packed, "wb", compresslevel=3) as target:
                shutil.copyfileobj(source, target, 1 << 20)
        self.place.put(f"{SNAPSHOTS}{number:010d}.sqlite.gz", packed.getvalue())

    def fetch_snapshot(self, path: Path) -> None:
        """Replace a ledger, which nobody writes, by the newest snapshot if that spares reading."""
        newest = max((entry.key for entry in self.place.list(SNAPSHOTS)), default="")
        number = newest.removeprefix(SNAPSHOTS).partition(".")[0]
        if not number.isdecimal() or int(number) < _number_of(path) + _PAGE:
            return
        content = self._get(newest)
        with atomic_path(path) as temporary:
            try:
                with temporary.open("wb") as target:
                    target.writelines(_unpacked(content, _MOST_TIMES * len(content)))
                if (last := _number_of(temporary)) != int(number):
                    raise ValueError(f"it is of record {last}")
            except (*_CORRUPT, sqlite3.Error) as error:
                template = "{snapshot} is damaged ({why}); delete it: the records hold the same"
                raise RunError(template, snapshot=self.place.name_of(newest), why=error) from error
            for suffix in ("-wal", "-shm"):  # of the old one
                path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)


def _unpacked(packed: bytes, most: int) -> Iterator[bytes]:
    """Yield what gzip packed; a stranger's may be a few bytes that become gigabytes."""
    left = most
    with gzip.open(io.BytesIO(packed)) as source:
        while piece := source.read(1 << 20):
            left -= len(piece)
            if left < 0:
                raise ValueError(f"unpacked it is larger than {most >> 20} MB")
            yield piece


def _number_of(path: Path) -> int:
    """Return the number of the last record in a ledger; 0 if there is none."""
    if not path.exists():
        return 0
    with closing(sqlite3.connect(path)) as database:
        return int(database.execute("PRAGMA user_version").fetchone()[0])


def _key(number: int) -> str:
    return f"{PREFIX}{number:010d}.json.gz"
