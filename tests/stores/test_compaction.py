"""Rows that no longer count leave the shards."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pyarrow.parquet as pq
import pytest

from posemill.errors import RunError
from posemill.records import PoseClip
from posemill.stores.commits import CommitLog
from posemill.stores.compaction import compact
from posemill.stores.manifest import Manifest
from posemill.stores.reader import open_run
from posemill.stores.writer import RunWriter


def make_clip(name, value, num_frames=4):
    points = np.full((num_frames, 543, 3), value, np.float32)
    sizes = np.ones((num_frames, 2), np.int32)
    return PoseClip(points, points[..., 0], sizes, clip_id=name)


def test_a_shard_is_rewritten_without_rows_that_were_given_up(tmp_path):
    with RunWriter(tmp_path / "run", Manifest("holistic-543")) as writer:
        for number, name in enumerate("abc"):
            writer.add(make_clip(name, number))
    log = CommitLog(tmp_path / "run")
    with log.transaction():
        log._database.execute("DELETE FROM pieces WHERE clip_no = 2")
    assert compact(tmp_path / "run", log) == 1
    assert compact(tmp_path / "run", log) == 0
    (shard,) = (tmp_path / "run" / "shards").iterdir()
    assert shard.name == "part-000000-r1.parquet"
    assert pq.read_table(shard)["clip_id"].to_pylist() == ["a"] * 4 + ["c"] * 4
    clips = {clip.clip_id: clip.points[0, 0, 0] for clip in open_run(tmp_path / "run").clips()}
    assert clips == {"a": 0.0, "c": 2.0}
    with log.transaction():
        log._database.execute("DELETE FROM pieces")
    assert compact(tmp_path / "run", log) == 1
    assert (log.shard_names(), log.stale_shards()) == (set(), [])
    log.close()
    assert not list((tmp_path / "run" / "shards").iterdir())


def test_a_shard_that_is_rewritten_again_has_the_next_number(tmp_path):
    with RunWriter(tmp_path / "run", Manifest("holistic-543")) as writer:
        for number, name in enumerate("abc"):
            writer.add(make_clip(name, number))
    with closing(CommitLog(tmp_path / "run")) as log:
        for clip_no in (2, 1):
            log._database.execute("DELETE FROM pieces WHERE clip_no = ?", (clip_no,))
            assert compact(tmp_path / "run", log) == 1
        assert log.shard_names() == {"part-000000-r2.parquet"}
        assert log.pieces_of(1) == [(3, 0, 4)]
        # One that somebody else removed already does not stop the others.
        log._database.execute("DELETE FROM pieces")
        (tmp_path / "run" / "shards" / "part-000000-r2.parquet").unlink()
        assert compact(tmp_path / "run", log) == 1
        assert log.shard_names() == set()


def test_damaged_rows_are_not_written_anew(tmp_path):
    with RunWriter(tmp_path / "run", Manifest("holistic-543")) as writer:
        for number, name in enumerate("abc"):
            writer.add(make_clip(name, number))
    (shard,) = (tmp_path / "run" / "shards").iterdir()
    content = bytearray(shard.read_bytes())
    page = pq.ParquetFile(shard).metadata.row_group(0).column(0).dictionary_page_offset
    content[page + 40] ^= 1
    shard.write_bytes(content)
    log = CommitLog(tmp_path / "run")
    with log.transaction():
        log._database.execute("DELETE FROM pieces WHERE clip_no = 2")
    with pytest.raises(RunError, match=r"part-000000\.parquet (is damaged|cannot be read).*; put"):
        compact(tmp_path / "run", log)
    log.close()
    assert shard.exists()
