"""Rows that no longer count leave the shards."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from posemill.errors import RunError
from posemill.runs.events import Piece
from posemill.runs.home import RunHome
from posemill.runs.log import EventLog
from posemill.runs.reader import open_run
from posemill.runs.writer import compact
from tests.runs.conftest import small_clip, write_run


@pytest.fixture
def run(tmp_path):
    """A run of three clips in a shard: a, b and c have the points of 0, 1 and 2."""
    clips = (small_clip(name, 4, start=number) for number, name in enumerate("abc"))
    return write_run(tmp_path / "run", *clips).folder


def give_up(events, clip_no=None):
    """Let the rows of a clip, or of all, count no more, as a unit that starts anew does."""
    where = "" if clip_no is None else f" WHERE clip_no = {clip_no:d}"
    events.ledger._writer.execute(f"DELETE FROM pieces{where}")


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_shard_is_rewritten_without_rows_that_were_given_up(run, is_gone):
    home = RunHome.at(run)
    with EventLog(home.work) as events:
        give_up(events, 2)
        assert [compact(home, events) for _ in range(2)] == [1, 0]
        (shard,) = (run / "shards").iterdir()
        assert shard.name == "part-000-0000000-r1.parquet"
        assert pq.read_table(shard)["clip_id"].to_pylist() == ["a"] * 4 + ["c"] * 4
        clips = {clip.clip_id: clip.points[0, 0, 0] for clip in open_run(home.work).clips()}
        assert clips == {"a": 0.0, "c": 2.0}
        give_up(events, 1)
        assert compact(home, events) == 1
        assert list(events.ledger.shard_sizes()) == ["part-000-0000000-r2.parquet"]
        (piece,) = events.ledger.execute(f"SELECT {', '.join(Piece._fields[:4])} FROM pieces")
        assert piece == Piece(3, 0, 0, 4)[:4]
        # One of which nothing counts any more goes, also where somebody else removed its file.
        give_up(events)
        if is_gone:
            (run / "shards" / "part-000-0000000-r2.parquet").unlink()
        assert [compact(home, events) for _ in range(2)] == [1, 0]
        assert events.ledger.shard_sizes() == {}
    assert list((run / "shards").iterdir()) == []
    assert list(open_run(home.work).clips()) == []


def test_damaged_rows_are_not_written_anew(run):
    (shard,) = (run / "shards").iterdir()
    content = bytearray(shard.read_bytes())
    page = pq.ParquetFile(shard).metadata.row_group(0).column(0).dictionary_page_offset
    content[page + 40] ^= 1
    shard.write_bytes(content)
    with EventLog(run) as events:
        give_up(events, 2)
        with pytest.raises(RunError, match=r"part-000-0000000\.parquet is damaged.*; put"):
            compact(RunHome.at(run), events)
    assert shard.exists()
