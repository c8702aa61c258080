"""A run's commit records as objects: `records/0000000001.json.gz` and so on, each created once.

A record holds the rows of the ledger that one commit changed, so that any machine can build the
ledger from the records, in their order, by putting rows into tables. Record n + 1 can be created
only by one who has seen record n, and only once. A new writer's first record is empty: it takes the
number that the old one, wherever it is, would need for its next. So a writer that was cut off and
comes back cannot commit anything: there is no rule about epochs to obey, the key is taken.
"""

from __future__ import annotations

import base64
import gzip
import json
import sqlite3
import uuid
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from posemill.errors import RunError
from posemill.files import parse_json
from posemill.storage import Storage
from posemill.terminal import quoted

PREFIX = "records/"
_VERSION = 1
_AT_ONCE = 16  # requests side by side; a page of records is in memory
_PAGE = 256
_MOST_BYTES = 256 << 20  # of one record, unpacked


class RecordLog:
    """The records of a run, and the ledger that follows them.

    Args:
        storage: The run's place.
        epoch: Of the lease one writes under.
    """

    def __init__(self, storage: Storage, epoch: int = 0) -> None:
        self.storage, self.epoch = storage, epoch
        self._writer = uuid.uuid4().hex
        self._number = -1  # in memory, not from the file: what others add is not ours

    def follow(self, database: sqlite3.Connection) -> int:
        """Bring a ledger to where the records are; return how many there were to add."""
        (at,) = database.execute("PRAGMA user_version").fetchone()
        added = 0
        for page in self._pages(at):
            database.execute("BEGIN IMMEDIATE")
            try:
                for content in page:
                    at += 1
                    _apply(database, self._parse(content, at))
                database.execute(f"PRAGMA user_version = {at:d}")
                database.execute("COMMIT")
            except BaseException:
                database.rollback()
                raise
            added += len(page)
        self._number = at
        return added

    def _pages(self, at: int) -> Iterator[list[bytes]]:
        page: list[str] = []
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for entry in self.storage.entries(PREFIX, after=_key(at) if at else ""):
                if entry.key != _key(at + len(page) + 1):
                    raise RunError(
                        f"{self.storage.name_of(_key(at + len(page) + 1))} is missing, but there "
                        f"is {entry.key}; put it back from a copy: what follows rests on it"
                    )
                page.append(entry.key)
                if len(page) == _PAGE:
                    yield self._get_all(pool, page)
                    at, page = at + len(page), []
            if page:
                yield self._get_all(pool, page)

    def _get_all(self, pool: ThreadPoolExecutor, keys: Sequence[str]) -> list[bytes]:
        contents = list(pool.map(self.storage.get, keys))
        if None in contents:
            raise RunError(f"{self.storage.name}: a record has gone while the run was read")
        return [each for each in contents if each is not None]

    def _parse(self, content: bytes, number: int) -> dict[str, Any]:
        try:
            record = parse_json(_unpack(content))
            if record["posemill_record"] != _VERSION or record["number"] != number:
                raise ValueError(f"version {record['posemill_record']}, number {record['number']}")
            if not isinstance(record["rows"], dict) or not isinstance(record["gone"], dict):
                raise TypeError("its rows are no tables")
        except (ValueError, KeyError, TypeError, zlib.error) as error:
            raise RunError(
                f"{self.storage.name_of(_key(number))} is damaged, or of another version of "
                f"posemill ({error}); put back a copy of it"
            ) from error
        return dict(record)

    def take_over(self, database: sqlite3.Connection) -> None:
        """Write the empty record that shuts out every writer before; the ledger is current then.

        Raises:
            RunError: A later epoch has written: this one slept since it got its lease.
        """
        while True:
            self.follow(database)
            if self._last_epoch() > self.epoch:
                raise self._taken_over()
            if self.storage.create(_key(self._number + 1), self._content({}, {})):
                self._number += 1
                database.execute(f"PRAGMA user_version = {self._number:d}")
                return

    def _last_epoch(self) -> int:
        """Return the epoch of the last record, which is the highest of all."""
        content = self.storage.get(_key(self._number)) if self._number else None
        return 0 if content is None else int(self._parse(content, self._number)["epoch"])

    def _taken_over(self) -> RunError:
        return RunError(
            f"{self.storage.name} was taken over by another process while this one was cut off or "
            "asleep; nothing was committed twice: look with: posemill status "
            f"{quoted(self.storage.name)}"
        )

    def watch(self, database: sqlite3.Connection) -> None:
        """Note from now on which rows are changed; in memory, and undone with a transaction."""
        for table in _tables(database):
            keys = _keys(database, table)
            names = ", ".join(f"key_{key}" for key in keys)
            statements = [f"CREATE TEMP TABLE changed_{table} ({names}, PRIMARY KEY ({names}))"]
            for event, row in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")):
                values = ", ".join(f"{row}.{key}" for key in keys)
                # + takes the column's type away: with it, SQLite would not use the index.
                is_known = " AND ".join(f"key_{key} = +{row}.{key}" for key in keys)
                statements.append(
                    f"CREATE TEMP TRIGGER on_{event}_{table} AFTER {event} ON main.{table} BEGIN "
                    # not OR IGNORE: the statement outside decides what a conflict does here
                    f"INSERT INTO changed_{table} SELECT {values} WHERE NOT EXISTS "
                    f"(SELECT 1 FROM changed_{table} WHERE {is_known}); END"
                )
            for statement in statements:
                database.execute(statement)

    def publish(self, database: sqlite3.Connection) -> None:
        """Write what the open transaction changed as the next record; it may be committed then.

        Raises:
            RunError: Another writer took over: nothing of this transaction may count.
        """
        rows: dict[str, list[list[Any]]] = {}
        gone: dict[str, list[list[Any]]] = {}
        for table in _tables(database):
            keys = _keys(database, table)
            on = " AND ".join(f"rows.{key} = key_{key}" for key in keys)
            mine = ", ".join(f"key_{key}" for key in keys)
            for row in database.execute(
                f"SELECT {mine}, rows.* FROM changed_{table} LEFT JOIN main.{table} AS rows ON {on}"
            ).fetchall():
                key, values = row[: len(keys)], row[len(keys) :]
                if all(value is None for value in values):
                    gone.setdefault(table, []).append(list(key))
                else:
                    row_id = key if keys == ["rowid"] else ()
                    rows.setdefault(table, []).append([_to_json(v) for v in (*row_id, *values)])
            database.execute(f"DELETE FROM changed_{table}")
        if not rows and not gone:
            return
        if not self.storage.create(_key(self._number + 1), self._content(rows, gone)):
            raise self._taken_over()
        self._number += 1
        database.execute(f"PRAGMA user_version = {self._number:d}")

    def _content(self, rows: dict[str, Any], gone: dict[str, Any]) -> bytes:
        record = {
            "posemill_record": _VERSION, "number": self._number + 1, "epoch": self.epoch,
            "writer": self._writer, "rows": rows, "gone": gone,
        }  # fmt: skip
        text = json.dumps(record, separators=(",", ":"))
        return gzip.compress(text.encode(), compresslevel=5, mtime=0)


def _apply(database: sqlite3.Connection, record: dict[str, Any]) -> None:
    """Put the rows of a record into the ledger; only into tables that are there."""
    for table in _tables(database):
        keys = _keys(database, table)
        columns = [name for (name,) in database.execute(
            f"SELECT name FROM pragma_table_info('{table}') ORDER BY cid")]  # fmt: skip
        names = [*(keys if keys == ["rowid"] else []), *columns]
        places = ", ".join("?" * len(names))
        database.executemany(
            f"INSERT OR REPLACE INTO {table} ({', '.join(names)}) VALUES ({places})",
            [[_from_json(value) for value in row] for row in record["rows"].get(table, ())],
        )
        where = " AND ".join(f"{key} = ?" for key in keys)
        database.executemany(f"DELETE FROM {table} WHERE {where}", record["gone"].get(table, ()))


def _tables(database: sqlite3.Connection) -> list[str]:
    rows = database.execute("SELECT name FROM main.sqlite_master WHERE type = 'table' ORDER BY 1")
    return [name for (name,) in rows if not name.startswith("sqlite_")]


def _keys(database: sqlite3.Connection, table: str) -> list[str]:
    """Return the columns that tell the rows of a table apart; `rowid` where their order counts."""
    (sql,) = database.execute(
        "SELECT sql FROM main.sqlite_master WHERE type = 'table' AND name = ?", (table,)
    ).fetchone()
    rows = database.execute(
        f"SELECT name, type FROM pragma_table_info('{table}') WHERE pk ORDER BY pk"
    ).fetchall()
    is_keyed = "WITHOUT ROWID" in sql.upper() or [kind for _, kind in rows] == ["INTEGER"]
    return [name for name, _ in rows] if is_keyed else ["rowid"]


def _unpack(content: bytes) -> bytes:
    """Return the text of a record; a stranger's may be a few bytes that become gigabytes."""
    unpacker = zlib.decompressobj(wbits=31)  # gzip
    text = unpacker.decompress(content, _MOST_BYTES)
    if unpacker.unconsumed_tail:
        raise ValueError(f"it is larger than {_MOST_BYTES >> 20} MB")
    if not unpacker.eof:
        raise ValueError("it is cut off")
    return text


def _to_json(value: Any) -> Any:
    return [base64.b64encode(value).decode()] if isinstance(value, bytes) else value


def _from_json(value: Any) -> Any:
    return base64.b64decode(value[0]) if isinstance(value, list) else value


def _key(number: int) -> str:
    return f"{PREFIX}{number:010d}.json.gz"
