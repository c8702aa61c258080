"""What a ledger answers to who only reads it."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from posemill.errors import RunError
from posemill.runs.events import Committed, Finished, Lost, Piece, PlannedClip, Shard, UnitProgress
from posemill.runs.log import EventLog
from posemill.runs.manifest import Manifest
from posemill.runs.queries import SplitCounts, read_ledger


@pytest.fixture
def events(tmp_path):
    Manifest("openpose-18").write(tmp_path)
    with EventLog(tmp_path) as events:
        yield events


def whole(clip_no, split, num_rows, *lost):
    return UnitProgress(None, clip_no, split, num_rows, None, True, num_rows, lost)


def lost(frame_index, num_frames, reason="corrupt"):
    return Lost(frame_index, num_frames, "/x", reason, "all of it")


def test_counts_are_kept_by_split_in_the_order_of_the_source(events, tmp_path):
    """Lost frames make their clip longer, and a lost clip is counted."""
    names = (("train", "a", 2), ("dev", "a", None), ("train", "b", None), ("train", "c", 7))
    clips = tuple(PlannedClip(*name) for name in names)
    shard = Shard("x.parquet", 2, 10, (Piece(1, 0, 0, 2),))
    first, missing = whole(1, "train", 2, lost(1, 1), lost(0, 3)), lost(None, 0, "missing")
    events.record(Committed(shard, (first, whole(3, "train", 0, missing)), clips))
    with read_ledger(tmp_path) as database:
        assert database.counts() == [
            SplitCounts("train", 3, 2, 13, 2, 4, 1),
            SplitCounts("dev", 1, 0, 0, 0, 0, 0),
        ]
        assert [failure.frame_index for failure in database.failures()] == [0, 1, None]
        assert database.reasons() == [("corrupt", 2, 4), ("missing", 1, 0)]


def test_names_that_are_no_text_are_stored_as_what_can_be_read(events, tmp_path):
    clip = PlannedClip("d\udce9v", "caf\udce9", 1, "digest")
    missing = Lost(None, 0, "/\udce9", "r", "\udce9")
    events.record(Committed(None, (whole(1, "d\udce9v", 0, missing),), (clip,)))
    with read_ledger(tmp_path) as database:
        (found,) = database.failures()
        assert (found.clip_id, found.split) == (r"caf\xe9", r"d\xe9v")
        assert (found.path, found.message) == (r"/\xe9", r"\xe9")
        assert database.counts() == [SplitCounts(r"d\xe9v", 1, 1, 1, 0, 0, 1)]
        assert database.execute("SELECT content FROM clips").fetchone() == ("digest",)


def set_a_trap(folder):
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as database:
        database.execute("CREATE VIEW trap AS SELECT 1")


def test_a_folder_that_may_not_be_written_is_read_with_the_same_care(tmp_path, monkeypatch):
    """SQLite cannot make its side files there; the second way in checks the tables too."""
    real, asked = sqlite3.connect, []

    def connect(name, **options):
        asked.append(name.rpartition("?")[2])
        return real(":memory:", factory=Refusing) if "mode=ro" in name else real(name, **options)

    class Refusing(sqlite3.Connection):
        def execute(self, *_):
            raise sqlite3.OperationalError("unable to open database file")

    with EventLog(tmp_path) as events:
        events.record(Finished("1"))
    monkeypatch.setattr(sqlite3, "connect", connect)
    with read_ledger(tmp_path) as database:
        assert database.finished_at() == "1"
    assert asked == ["mode=ro", "immutable=1"]
    monkeypatch.undo()
    set_a_trap(tmp_path)
    monkeypatch.setattr(sqlite3, "connect", connect)
    with pytest.raises(RunError, match="the view 'trap'"), read_ledger(tmp_path):
        pass
