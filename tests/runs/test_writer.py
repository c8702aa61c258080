from contextlib import closing

import pyarrow.parquet as pq
import pytest

from posemill.errors import RunError
from posemill.runs.events import Piece, Started
from posemill.runs.home import RunHome
from posemill.runs.log import EventLog
from posemill.runs.manifest import Manifest
from posemill.runs.queries import Failure, SplitCounts
from posemill.runs.reader import open_run
from posemill.runs.writer import ROWS_PER_GROUP, RunWriter, ShardWriter, remove_uncommitted
from tests.runs.conftest import SHARD, small_clip, write_run


@pytest.fixture
def folder(tmp_path):
    """A run's folder with nothing but a place for shards."""
    (tmp_path / "shards").mkdir()
    return tmp_path


def test_a_shard_has_groups_of_512_rows_checksums_and_its_own_size(folder):
    path, writer = folder / "shards" / "a.parquet", ShardWriter(folder, "id")
    writer.add(1, small_clip(num_frames=513))
    shard = writer.write(path.name)
    assert (shard.name, shard.num_bytes) == (path.name, path.stat().st_size)
    assert [each.name for each in path.parent.iterdir()] == ["a.parquet"]
    metadata = pq.read_schema(path).metadata
    assert (metadata[b"posemill.run"], metadata[b"posemill.shard"]) == (b"id", b"a.parquet")
    file = pq.ParquetFile(path)
    groups = [file.metadata.row_group(index).num_rows for index in range(2)]
    assert (ROWS_PER_GROUP, groups, file.metadata.num_row_groups) == (512, [512, 1], 2)
    columns = {
        each.path_in_schema: each
        for each in map(file.metadata.row_group(0).column, range(file.metadata.num_columns))
    }
    assert {each.compression for each in columns.values()} == {"ZSTD"}
    for name, column in columns.items():
        is_float = name.endswith(".list.element")
        assert ("BYTE_STREAM_SPLIT" in column.encodings) is is_float, name
        # Booleans are bits already: they have no dictionary.
        assert column.has_dictionary_page is not (is_float or name.startswith("has_")), name


def test_pieces_of_a_shard_lie_behind_each_other(folder):
    writer = ShardWriter(folder, "id")
    clip = small_clip(num_frames=3, first=5)
    clip.sizes_wh[1:] = 320, 240
    writer.add(7, clip, unit_no=9)
    writer.add(8, small_clip("b", 2))
    assert writer.num_rows == 5
    shard = writer.write("x.parquet")
    assert shard.pieces == (
        Piece(7, 5, 0, 3, 9, "[[2],[[210,260,1],[320,240,2]]]"),
        Piece(8, 0, 3, 2, None, "[[1],[[210,260,2]]]"),
    )
    assert pq.read_table(folder / "shards" / "x.parquet")["frame_index"].to_pylist() == [
        5, 6, 7, 0, 1,
    ]  # fmt: skip
    # The next shard starts anew.
    assert writer.num_rows == 0
    writer.add(9, small_clip("c", 1))
    shard = writer.write("y.parquet")
    assert [piece.row_offset for piece in shard.pieces] == [0]


@pytest.mark.parametrize(
    ("more", "lengths", "rows"),
    [({"rows_per_shard": 5}, [3, 2, 3], [5, 3]), ({"rows_per_shard": 6}, [3, 2, 3], [8]),
     ({}, [4095, 1, 1], [4096, 1])],
)  # fmt: skip
def test_a_shard_is_full_when_it_has_as_many_rows(tmp_path, more, lengths, rows):
    clips = (small_clip(name, length) for name, length in zip("abc", lengths, strict=True))
    run = write_run(tmp_path / "a" / "run", *clips, **more)
    shards = {path.name: pq.read_metadata(path).num_rows for path in run.folder.glob("shards/*")}
    assert shards == {f"part-000-{index:07d}.parquet": size for index, size in enumerate(rows)}


def failure(clip_id, split="train", num_frames=2):
    return Failure(clip_id, split, None, num_frames, "p", "truncated", "cut off")


def test_clips_frames_and_failures_are_counted_by_split(tmp_path):
    with RunWriter(tmp_path / "run", Manifest("openpose-18")) as writer:
        writer.add_failure(failure("a"))
        writer.add(small_clip("a", 3))
        writer.add(small_clip("empty", 0))
        writer.add(small_clip("a", 2, split="dev"))
        writer.add_failure(failure("gone", "dev", 0))
        writer.add_failure(failure("gone", "dev", 0))
    run = open_run(tmp_path / "run")
    assert run.counts == [
        SplitCounts("train", 2, 2, 5, 3, 2, 0), SplitCounts("dev", 2, 2, 2, 2, 0, 1),
    ]  # fmt: skip
    assert run.failures() == [failure("a"), *[failure("gone", "dev", 0)] * 2]
    assert run.is_finished
    assert [len(clip) for clip in run] == [3, 2]
    # A closed ledger is one file, without what SQLite writes ahead.
    assert not (tmp_path / "run" / "ledger.sqlite-wal").exists()


def test_what_cannot_be_written_is_refused_and_not_counted(tmp_path):
    with RunWriter(tmp_path / "run", Manifest("openpose-18")) as writer:
        with pytest.raises(ValueError, match="clip 'a': extra holds what JSON cannot"):
            writer.add(small_clip("a", extra={"x": object()}))
        writer.add(small_clip("a", 2))
        writer.add(small_clip("b", 1))
        with pytest.raises(ValueError, match=r"^clip 'a' of split 'train' was added before$"):
            writer.add(small_clip("a", 1))
    run = open_run(tmp_path / "run")
    assert (len(run), run.num_frames) == (2, 3)
    assert [(clip.clip_id, len(clip)) for clip in run] == [("a", 2), ("b", 1)]


def test_a_clip_of_another_skeleton_and_another_run_are_refused(tmp_path):
    with RunWriter(tmp_path / "run", Manifest("holistic-143")) as writer:
        said = "'a' has skeleton openpose-18, the run has holistic-143; convert it with as_skeleton"
        with pytest.raises(ValueError, match=said):
            writer.add(small_clip())
    with pytest.raises(FileExistsError):
        RunWriter(tmp_path / "run", Manifest("holistic-143"))


def test_an_error_leaves_no_run(tmp_path):
    writer = RunWriter(tmp_path / "run", Manifest("openpose-18"), rows_per_shard=1)
    writer.add(small_clip())
    with pytest.raises(KeyError), writer:
        raise KeyError
    with pytest.raises(RunError, match="is not a posemill run"):
        open_run(tmp_path / "run")


def test_only_shards_of_starts_so_far_without_a_record_are_removed(tmp_path):
    folder = write_run(tmp_path / "run", small_clip()).folder
    theirs = {"a.parquet", "notes.txt", "part-001-0000001.parquet"}  # or of a later start
    for name in (*theirs, "part-000-0000001-0000.parquet", ".part-000-0000002.parquet.1-ab.tmp"):
        (folder / "shards" / name).touch()
    with closing(EventLog(folder)) as events:
        events.record(Started())
        remove_uncommitted(RunHome.at(folder), events.ledger)
    assert {path.name for path in folder.glob("shards/*")} == {*theirs, SHARD}
