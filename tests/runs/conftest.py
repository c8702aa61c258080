"""Runs whose shards were changed by somebody who changed the ledger as well."""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from posemill.runs.shards import checksum_of


@pytest.fixture
def recommit() -> Callable[[Path], None]:
    """Write the checksums of the shards that are there into the ledger of a run."""

    def write(folder: Path) -> None:
        with closing(sqlite3.connect(folder / "ledger.sqlite")) as database, database:
            for path in (folder / "shards").iterdir():
                database.execute(
                    "UPDATE shards SET checksum = ? WHERE name = ?",
                    (checksum_of(io.BytesIO(path.read_bytes())), path.name),
                )

    return write
