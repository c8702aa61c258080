"""The ledger by itself: counts that add up, failures in order, all or nothing."""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from posemill.errors import RunError
from posemill.stores.commits import (
    CommitLog,
    Failure,
    Piece,
    Shard,
    SplitCounts,
    read_clips_failed,
    read_counts,
    read_failures,
    read_ledger,
    read_meta,
    read_reasons,
)

LOST = Failure("a", "train", 3, 1, "a/3.png", "truncated", "no end marker")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[CommitLog]:
    log = CommitLog(tmp_path)
    yield log
    log.close()


def counts(folder: Path) -> dict[str, SplitCounts]:
    with read_ledger(folder) as database:
        return {each.split: each for each in read_counts(database)}


def test_clips_get_numbers_in_the_order_of_adding_and_are_counted(
    log: CommitLog, tmp_path: Path
) -> None:
    with log.transaction():
        assert log.add_clip("train", "a", 10, content="x") == 1
        assert log.add_clip("dev", "a", None) == 2
        assert log.add_clip("train", "b", 5) == 3
        log.count("train", clips_done=2, frames_out=14)
        log.count("train", frames_failed=1)
    assert counts(tmp_path) == {
        "train": SplitCounts("train", 2, 2, 15, 14, 1),
        "dev": SplitCounts("dev", 1, 0, 0, 0, 0),
    }
    assert list(counts(tmp_path)) == ["train", "dev"]


def test_a_clip_is_added_once(log: CommitLog) -> None:
    log.add_clip("train", "a", 10)
    log.add_clip("dev", "a", 10)
    with pytest.raises(sqlite3.IntegrityError):
        log.add_clip("train", "a", 10)


def test_a_failure_makes_its_clip_longer_by_what_was_lost(log: CommitLog, tmp_path: Path) -> None:
    with log.transaction():
        first, second = log.add_clip("train", "a", 4), log.add_clip("train", "b", None)
        log.add_failure(first, LOST)
        log.add_failure(second, dataclasses.replace(LOST, frame_index=None, num_frames=0))
        log.add_failure(second, dataclasses.replace(LOST, frame_index=1, num_frames=2))
    assert counts(tmp_path)["train"].frames_known == 4 + 1 + 2
    assert counts(tmp_path)["train"].frames_failed == 3
    with read_ledger(tmp_path) as database:
        lengths = database.execute("SELECT num_frames FROM clips ORDER BY clip_no").fetchall()
    assert lengths == [(5,), (2,)]


def test_a_clip_failed_if_nothing_came_of_it(log: CommitLog, tmp_path: Path) -> None:
    with log.transaction():
        whole, part, gone, lost = (log.add_clip("train", name, None) for name in "abcd")
        log.add_failure(part, dataclasses.replace(LOST, num_frames=2))
        log.add_failure(gone, dataclasses.replace(LOST, frame_index=None, num_frames=0))
        log.add_failure(lost, dataclasses.replace(LOST, num_frames=2))
        log.add_shard(Shard("one.parquet", 5, 9, (Piece(whole, 0, 0, 3), Piece(part, 0, 3, 2))))
    with read_ledger(tmp_path) as database:
        assert read_clips_failed(database) == {"train": 2}
        assert read_counts(database)[0].clips_failed == 2
        assert read_counts(database, {"train": 7})[0].clips_failed == 7
        assert read_counts(database, {})[0].clips_failed == 0


def test_a_clip_of_which_frames_are_still_to_come_has_not_failed(
    log: CommitLog, tmp_path: Path
) -> None:
    with log.transaction():
        log.add_failure(log.add_clip("train", "a", 4), LOST)  # 1 of 5 lost, none out yet
    assert counts(tmp_path)["train"].clips_failed == 0


def test_failures_come_in_the_order_of_clips_and_frames(log: CommitLog, tmp_path: Path) -> None:
    late = dataclasses.replace(LOST, frame_index=7, reason="missing", num_frames=4)
    other = dataclasses.replace(LOST, clip_id="b", frame_index=0)
    with log.transaction():
        first, second = log.add_clip("train", "a", 8), log.add_clip("train", "b", 8)
        log.add_failure(second, other)
        log.add_failure(first, late)
        log.add_failure(first, LOST)
    with read_ledger(tmp_path) as database:
        assert list(read_failures(database)) == [LOST, late, other]
        assert read_reasons(database) == [("truncated", 2, 2), ("missing", 1, 4)]


def test_reasons_as_frequent_as_each_other_come_by_name(log: CommitLog, tmp_path: Path) -> None:
    with log.transaction():
        clip_no = log.add_clip("train", "a", 8)
        for reason in ("missing", "corrupt"):
            log.add_failure(clip_no, dataclasses.replace(LOST, reason=reason))
    with read_ledger(tmp_path) as database:
        assert [reason for reason, _, _ in read_reasons(database)] == ["corrupt", "missing"]


def test_shards_and_their_pieces_are_kept_replaced_and_removed(
    log: CommitLog, tmp_path: Path
) -> None:
    pieces = (Piece(2, 0, 4, 3, 8), Piece(1, 5, 0, 4))
    with log.transaction():
        shard_no = log.add_shard(Shard("one.parquet", 9, 100, pieces))
        other = log.add_shard(Shard("two.parquet", 2, 50, (Piece(1, 9, 0, 2),)))
    assert log.shard_names() == {"one.parquet", "two.parquet"}
    assert log.stale_shards() == [(shard_no, "one.parquet")]  # 9 rows, 7 in pieces
    assert log.pieces_of(shard_no) == [(2, 0, 4), (1, 4, 3)]
    log.replace_shard(shard_no, "one-r1.parquet", (7, 80), [(2, 3), (1, 0)])
    assert log.pieces_of(shard_no) == [(1, 0, 3), (2, 3, 4)]
    assert log.stale_shards() == []
    log.remove_shard(other)
    assert log.shard_names() == {"one-r1.parquet"}
    with read_ledger(tmp_path) as database:
        row = database.execute("SELECT shard_no, name, num_rows, num_bytes FROM shards").fetchall()
        assert row == [(shard_no, "one-r1.parquet", 7, 80)]
        units = database.execute("SELECT unit_no, first_frame FROM pieces ORDER BY piece_no")
        assert units.fetchall()[:2] == [(8, 0), (None, 5)]


def test_an_inner_transaction_is_part_of_the_outer_one(log: CommitLog, tmp_path: Path) -> None:
    def fail_after_an_inner_one() -> None:
        with log.transaction():
            with log.transaction():
                log.add_clip("train", "a", 1)
            raise KeyError

    with pytest.raises(KeyError):
        fail_after_an_inner_one()
    assert counts(tmp_path) == {}


def test_words_are_remembered_by_name(log: CommitLog, tmp_path: Path) -> None:
    log.set_meta(state="begun", who="me")
    log.set_meta(state="done")
    with read_ledger(tmp_path) as database:
        assert read_meta(database) == {"state": "done", "who": "me"}


def test_a_closed_ledger_is_one_plain_file_and_goes_on_when_opened_again(tmp_path: Path) -> None:
    log = CommitLog(tmp_path)
    log.add_clip("train", "a", 4)
    assert log._database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert log._database.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    log.close()
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.sqlite"]
    again = CommitLog(tmp_path)
    assert again.add_clip("train", "b", 4) == 2
    again.close()


def test_a_ledger_somebody_reads_is_closed_all_the_same(tmp_path: Path) -> None:
    log = CommitLog(tmp_path)
    log.add_clip("train", "a", 4)
    with read_ledger(tmp_path) as database:
        rows = database.execute("SELECT clip_id FROM clips")
        log.close()
        assert rows.fetchall() == [("a",)]


def test_what_is_no_ledger_is_said(tmp_path: Path) -> None:
    def look() -> None:
        with read_ledger(tmp_path):
            pass

    with pytest.raises(RunError, match=r"has no ledger.sqlite yet; nothing was committed to it"):
        look()
    (tmp_path / "ledger.sqlite").write_bytes(b"something else" * 99)
    with pytest.raises(RunError, match=r"ledger.sqlite cannot be read: file is not a database"):
        look()


def test_names_that_are_not_utf8_are_spelled_out(log: CommitLog, tmp_path: Path) -> None:
    odd = "caf\udce9"
    with log.transaction():
        clip_no = log.add_clip(odd, odd, 1)
        log.count(odd, clips_done=1)
        log.add_failure(clip_no, dataclasses.replace(LOST, split=odd, path=odd, message=odd))
    with read_ledger(tmp_path) as database:
        (failure,) = read_failures(database)
        (count,) = read_counts(database)
    assert failure.clip_id == failure.split == failure.path == failure.message == "caf\\xe9"
    assert (count.split, count.clips_done, count.frames_failed) == ("caf\\xe9", 1, 1)
