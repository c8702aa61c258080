"""A run that was made here, put where others see it: at a URI, as records and shards.

Shards first, under names that no other writer has, then the rows of the ledger as records, then the
manifest, which makes it a run. Killed before that there is no run, and the next one begins anew.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from posemill.errors import RunError
from posemill.storage import Storage, open_storage
from posemill.stores.commits import LEDGER_TABLES, CommitLog
from posemill.stores.lock import RunLock
from posemill.stores.manifest import LEDGER_NAME, MANIFEST_NAME, SHARDS_NAME
from posemill.stores.replica import local_run, writing

_AT_ONCE = 8
_ROWS_PER_RECORD = 20_000


def refuse_taken(uri: str) -> None:
    """Raise where there is a run already."""
    if open_storage(uri).look(MANIFEST_NAME) is not None:
        raise RunError(f"{uri} holds a run already; choose another place")


def publish_run(made: Path, uri: str) -> None:
    """Put a finished run of this machine at a URI.

    Raises:
        RunError: There is a run, or something else, or somebody works there.
        StorageError: The place refuses.
    """
    copy = local_run(uri)
    with RunLock(copy), writing(copy) as records:
        assert records is not None  # a URI is elsewhere
        refuse_taken(uri)
        storage = records.storage
        names = _put_shards(made, storage, records.epoch)
        with closing(CommitLog(copy, records)) as log:
            _copy_rows(made / LEDGER_NAME, log, names)
        if not storage.create(MANIFEST_NAME, (made / MANIFEST_NAME).read_bytes()):
            raise RunError(f"{uri}: another process has put a run there; choose another place")
    local_run(uri)


def _put_shards(made: Path, storage: Storage, epoch: int) -> dict[str, str]:
    """Return the new names by the old ones; a writer that was cut off has others."""
    paths = sorted((made / SHARDS_NAME).iterdir())
    names = {path.name: f"merged-{epoch:06d}-{path.name}" for path in paths}
    for entry in list(storage.entries(f"{SHARDS_NAME}/")):
        storage.delete(entry.key)  # of one that was killed: without a manifest they are nothing

    def put(path: Path) -> None:
        storage.put(f"{SHARDS_NAME}/{names[path.name]}", path.read_bytes())

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(put, paths))
    return names


def _copy_rows(ledger: Path, log: CommitLog, names: dict[str, str]) -> None:
    with closing(sqlite3.connect(f"{ledger.resolve().as_uri()}?mode=ro", uri=True)) as made:
        with log.transaction():  # what a killed one had written
            log.remove_all()
        for table in LEDGER_TABLES:
            for rows in _rows_of(made, table):
                with log.transaction():
                    log.insert(table, rows)
        with log.transaction():
            log.rename_shards(names)


def _rows_of(made: sqlite3.Connection, table: str) -> Iterator[list[tuple[object, ...]]]:
    found = made.execute(f"SELECT * FROM {table}")
    while rows := found.fetchmany(_ROWS_PER_RECORD):
        yield rows
