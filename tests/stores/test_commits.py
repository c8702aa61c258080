"""The records of a run: counts, failures, shards, all or nothing."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import FrozenInstanceError, fields

import pytest

from posemill.errors import RunError
from posemill.stores.commits import (
    CommitLog,
    Failure,
    Piece,
    Shard,
    SplitCounts,
    read_counts,
    read_failures,
    read_ledger,
    read_meta,
    read_reasons,
)
from posemill.stores.manifest import Manifest


def failure(clip_id, frame_index, num_frames, reason="corrupt", split="dev"):
    return Failure(clip_id, split, frame_index, num_frames, f"/{clip_id}", reason, "all of it")


@pytest.fixture
def log(tmp_path):
    Manifest("openpose-18").write(tmp_path)
    with closing(CommitLog(tmp_path)) as log:
        yield log


def test_counts_are_kept_by_split_in_the_order_of_the_source(log, tmp_path):
    with log.transaction():
        assert [log.add_clip("train", "a", 5), log.add_clip("dev", "a", None)] == [1, 2]
        log.add_clip("train", "b", 7)
        log.count("train", clips_done=1, frames_out=4, frames_failed=1)
    with read_ledger(tmp_path) as database:
        assert read_counts(database) == [
            SplitCounts("train", 2, 1, 12, 4, 1, 0), SplitCounts("dev", 1, 0, 0, 0, 0, 0)
        ]  # fmt: skip
        assert read_counts(database, {"dev": 3})[1].clips_failed == 3


def test_lost_frames_make_their_clip_longer_and_a_lost_clip_is_counted(log, tmp_path):
    with log.transaction():
        first, second = log.add_clip("dev", "a", 2), log.add_clip("dev", "b", None)
        log.add_shard(Shard("x.parquet", 2, 10, (Piece(first, 0, 0, 2),)))
        log.add_failure(first, failure("a", 1, 1))
        log.add_failure(second, failure("b", None, 0, "missing"))
        log.add_failure(first, failure("a", 0, 3))
    with read_ledger(tmp_path) as database:
        assert read_counts(database) == [SplitCounts("dev", 2, 0, 6, 0, 4, 1)]
        assert [each.frame_index for each in read_failures(database)] == [0, 1, None]
        assert read_reasons(database) == [("corrupt", 2, 4), ("missing", 1, 0)]


def test_a_transaction_inside_of_another_is_part_of_it(log, tmp_path):
    def fail_after_writing():
        with log.transaction():
            with log.transaction():
                log.set_meta(word="1")
            raise KeyError("outer")

    with pytest.raises(KeyError, match="outer"):
        fail_after_writing()
    with read_ledger(tmp_path) as database:
        assert read_meta(database) == {}
    with log.transaction():
        log.set_meta(word="1")
        log.set_meta(word="2", other="3")
    with read_ledger(tmp_path) as database:
        assert read_meta(database) == {"word": "2", "other": "3"}


def test_a_shard_with_rows_of_no_piece_is_stale_until_it_is_replaced_or_removed(log):
    with log.transaction():
        for number in (1, 2):
            log.add_clip("dev", f"{number}", 4)
        whole = log.add_shard(Shard("whole", 4, 10, (Piece(1, 0, 0, 4),)))
        part = log.add_shard(Shard("part", 9, 10, (Piece(2, 2, 5, 2), Piece(2, 0, 1, 2)), "ab"))
        empty = log.add_shard(Shard("empty", 1, 10, ()))
    assert log.stale_shards() == [(part, "part", "ab"), (empty, "empty", "")]
    assert log.pieces_of(part) == [(3, 1, 2), (2, 5, 2)]
    log.remove_shard(empty)
    log.replace_shard(part, Shard("part-r1", 4, 8, ()), [(3, 0), (2, 2)])
    assert log.stale_shards() == []
    assert log.pieces_of(part) == [(3, 0, 2), (2, 2, 2)]
    assert log.shard_names() == {"whole", "part-r1"}
    assert log.pieces_of(whole) == [(1, 0, 4)]


def test_a_run_without_a_ledger_has_nothing_committed(tmp_path):
    Manifest("openpose-18").write(tmp_path)
    with (
        pytest.raises(RunError, match=r"has no ledger\.sqlite yet; nothing was committed"),
        read_ledger(tmp_path),
    ):
        pass


def test_records_are_values():
    for value in (Piece(1, 0, 0, 2), Shard("x", 1, 2, ()), failure("a", 1, 1),
                  SplitCounts("dev", 1, 1, 1, 1, 0)):  # fmt: skip
        with pytest.raises(FrozenInstanceError):
            setattr(value, fields(value)[0].name, 7)


def test_names_that_are_no_text_are_stored_as_what_can_be_read(log, tmp_path):
    with log.transaction():
        clip_no = log.add_clip("d\udce9v", "caf\udce9", 1, content="digest")
        lost = Failure("caf\udce9", "d\udce9v", None, 0, "/\udce9", "r", "\udce9")
        log.add_failure(clip_no, lost)
    with read_ledger(tmp_path) as database:
        (found,) = read_failures(database)
        assert (found.clip_id, found.split) == (r"caf\xe9", r"d\xe9v")
        assert (found.path, found.message) == (r"/\xe9", r"\xe9")
        assert read_counts(database) == [SplitCounts(r"d\xe9v", 1, 0, 1, 0, 0)]
        assert database.execute("SELECT content FROM clips").fetchone() == ("digest",)


def test_a_ledger_with_more_than_tables_is_not_read_by_anybody(tmp_path):
    with closing(CommitLog(tmp_path)) as log:
        log._database.execute("CREATE VIEW trap AS SELECT 1")
    with pytest.raises(RunError, match="is not a ledger of posemill: it holds the view 'trap'; no"):
        CommitLog(tmp_path)
    with pytest.raises(RunError, match="the view 'trap'"), read_ledger(tmp_path):
        pass


def test_a_folder_that_may_not_be_written_is_read_with_the_same_care(tmp_path, monkeypatch):
    """SQLite cannot make its side files there; the second way in checks the tables too."""
    real, asked = sqlite3.connect, []

    def connect(name, **options):
        asked.append(name.rpartition("?")[2])
        return real(":memory:", factory=Refusing) if "mode=ro" in name else real(name, **options)

    class Refusing(sqlite3.Connection):
        def execute(self, *_):
            raise sqlite3.OperationalError("unable to open database file")

    with closing(CommitLog(tmp_path)) as log, log.transaction():
        log.set_meta(word="1")
    monkeypatch.setattr(sqlite3, "connect", connect)
    with read_ledger(tmp_path) as database:
        assert read_meta(database) == {"word": "1"}
    assert asked == ["mode=ro", "immutable=1"]
    monkeypatch.undo()
    with closing(CommitLog(tmp_path)) as log:
        log._database.execute("CREATE VIEW trap AS SELECT 1")
    monkeypatch.setattr(sqlite3, "connect", connect)
    with pytest.raises(RunError, match="the view 'trap'"), read_ledger(tmp_path):
        pass


def test_a_closed_ledger_is_one_plain_file(tmp_path):
    with closing(CommitLog(tmp_path)) as log, log.transaction():
        log.add_clip("dev", "a", 1)
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.sqlite"]
