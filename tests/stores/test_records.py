"""The log of records: what it costs to note which rows a commit changed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from posemill.errors import RunError
from posemill.storage import open_storage
from posemill.stores.commits import create_ledger
from posemill.stores.records import PREFIX, RecordLog


def steps_of_a_plan(folder: Path, num_clips: int) -> int:
    """Return how many thousands of steps SQLite takes to insert so many clips that are watched."""
    create_ledger(folder / f"{num_clips}.sqlite", has_units=True)
    steps = []
    with closing(sqlite3.connect(folder / f"{num_clips}.sqlite")) as database:
        RecordLog(open_storage(folder)).watch(database)
        database.set_progress_handler(lambda: steps.append(1), 1000)
        database.executemany(
            "INSERT INTO clips (split, clip_id) VALUES ('all', ?)",
            [(f"{number:06d}",) for number in range(num_clips)],
        )
        assert database.execute("SELECT count(*) FROM changed_clips").fetchone() == (num_clips,)
    return len(steps)


def test_watching_ten_times_the_clips_costs_ten_times_as_much_and_not_a_hundred(tmp_path):
    few, many = steps_of_a_plan(tmp_path, 500), steps_of_a_plan(tmp_path, 5000)
    assert many < 15 * few


def test_one_that_sleeps_between_its_lease_and_its_first_record_is_refused_by_a_later_epoch(
    tmp_path,
):
    storage = open_storage(tmp_path / "place")
    early, late = RecordLog(storage, epoch=1), RecordLog(storage, epoch=2)
    for name in ("early", "late"):
        create_ledger(tmp_path / f"{name}.sqlite", has_units=True)
    with (
        closing(sqlite3.connect(tmp_path / "early.sqlite", isolation_level=None)) as of_early,
        closing(sqlite3.connect(tmp_path / "late.sqlite", isolation_level=None)) as of_late,
    ):
        late.take_over(of_late)
        RecordLog(storage).follow(of_early)  # as a copy is brought up to date
        with pytest.raises(RunError, match="was taken over by another process while this one was"):
            early.take_over(of_early)
        RecordLog(storage, epoch=3).take_over(of_early)
    assert len(list(storage.entries(PREFIX))) == 2
