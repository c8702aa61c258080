import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from posemill.errors import RunError
from posemill.records import PoseClip
from posemill.runs.manifest import Manifest
from posemill.runs.reader import open_run
from posemill.runs.schema import run_schema
from posemill.runs.writer import RunWriter
from tests.runs.conftest import SHARD, random_clip, write_run


def assert_same(one, other):
    for name in ("points", "scores", "sizes_wh", "frame_indices"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for name in ("clip_id", "split", "skeleton_name", "image_paths", "label", "fps"):
        assert getattr(one, name) == getattr(other, name), name
    assert dict(one.extra) == dict(other.extra)


@pytest.fixture
def clips():
    paths = tuple(f"b/{index}.png" for index in range(700))
    return [
        random_clip("b", 700, seed=1, split="train", label="HELLO YOU", fps=25.0,
                    image_paths=paths),
        random_clip("a", 3, seed=2, split="train", extra={"speaker": "Signer'1\"", "n": 3}),
        random_clip("a", 8, seed=3, split="dev", frame_indices=np.arange(5, 13)),
    ]  # fmt: skip


@pytest.mark.parametrize("rows_per_shard", [1, 4096])
@pytest.mark.parametrize(("block_frames", "lengths"), [(100, [700, 3, 8]), (4096, [703, 8])])
def test_clips_come_back_as_they_were_in_the_order_of_adding(
    clips, tmp_path, monkeypatch, rows_per_shard, block_frames, lengths
):
    monkeypatch.setattr("posemill.runs.shards.BLOCK_FRAMES", block_frames)
    run = write_run(tmp_path / "run", *clips, rows_per_shard=rows_per_shard)
    plans = list(run.plan_blocks())  # the first clip is longer than a row group
    assert [len(plan) for plan in plans] == [len(run.read_block(p)) for p in plans] == lengths
    for got, expected in zip(run.clips(), clips, strict=True):
        assert_same(got, expected)
    assert_same(run.clip("a", "dev"), clips[2])


def test_shards_open_with_pandas_polars_and_duckdb_as_they_are(clips, tmp_path):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    write_run(tmp_path / "run", *clips, rows_per_shard=1)
    shards = tmp_path / "run" / "shards"
    expected = clips[0].as_skeleton("holistic-143").points[0].reshape(-1)
    frame = pandas.read_parquet(shards)
    np.testing.assert_array_equal(frame["keypoints_143"].iloc[0], expected)
    frame = polars.read_parquet(shards / "*.parquet")
    assert frame.columns[:6] == "split clip_id frame_index image_path width height".split()
    np.testing.assert_array_equal(frame["keypoints_143"][0].to_numpy(), expected)
    row = duckdb.sql(
        "SELECT split, count(*), sum(has_left_hand::int), avg(keypoints_other[1]) "
        f"FROM '{shards}/*.parquet' WHERE has_pose GROUP BY split ORDER BY split"
    ).fetchall()
    assert [each[:3] for each in row] == [("dev", 8, 4), ("train", 703, 351)]
    nose = f"SELECT keypoints_143[331:333] FROM '{shards}/*.parquet' WHERE split = 'dev' LIMIT 1"
    ((nose_xyz,),) = duckdb.sql(nose).fetchall()
    np.testing.assert_array_equal(np.float32(nose_xyz), clips[2].points[0, 0])
    # The first point of the face that holistic-143 leaves out is its second, behind 33 of pose.
    assert row[0][3] == pytest.approx(clips[2].points[:, 33 + 1, 0].mean(), rel=1e-4)


def test_memory_of_reading_clip_by_clip_does_not_grow_with_the_run(tmp_path):
    clip = random_clip("x", 256)
    with RunWriter(tmp_path / "run", Manifest("holistic-543"), rows_per_shard=1024) as writer:
        for number in range(24):
            writer.add(PoseClip(clip.points, clip.scores, clip.sizes_wh, clip_id=f"{number:03d}"))
    before, in_use = pa.total_allocated_bytes(), []
    tracemalloc.start()
    for read in open_run(tmp_path / "run").clips():
        assert len(read) == 256
        in_use.append(pa.total_allocated_bytes() - before + tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert max(in_use[8:]) <= max(in_use[:8]) * 1.05


def test_what_is_not_a_run_is_told_apart(tmp_path):
    with pytest.raises(RunError, match=r"is not a posemill run: it has no manifest\.json"):
        open_run(tmp_path)
    Manifest("holistic-543").write(tmp_path)
    with pytest.raises(RunError, match=r"has no ledger\.sqlite yet"):
        open_run(tmp_path)
    (tmp_path / "ledger.sqlite").write_bytes(b"not a database " * 99)
    with pytest.raises(RunError, match=r"ledger\.sqlite cannot be read"):
        open_run(tmp_path)


def test_damaged_shards_are_named(clips, tmp_path):
    run = write_run(tmp_path / "run", *clips)
    shard = run.folder / "shards" / SHARD
    shard.write_bytes(shard.read_bytes()[:-100])
    with pytest.raises(RunError, match=r"part-000-0000000\.parquet is damaged"):
        list(run.clips())
    pq.write_table(pa.table({"x": [1]}), shard)
    with pytest.raises(RunError, match="not a shard of a posemill run, or of another version"):
        list(run.clips())
    small = run_schema("holistic-143").empty_table()
    newer = {**small.schema.metadata, b"posemill.schema_version": b"7"}
    pq.write_table(small.replace_schema_metadata(newer), shard)
    with pytest.raises(RunError, match=r"schema version 7, this posemill reads 2\); use"):
        list(run.clips())


@pytest.mark.parametrize(("skeleton", "step"), [("holistic-143", 1601), ("holistic-543", 6007)])
def test_a_changed_bit_anywhere_is_an_error_or_changes_nothing(tmp_path, skeleton, step):
    paths = tuple(f"a/{index}.png" for index in range(4))
    clip = random_clip("a", 4, skeleton=skeleton, image_paths=paths, extra={"speaker": "x"})
    run = write_run(tmp_path / "run", clip)
    shard = run.folder / "shards" / SHARD
    content = shard.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    places = [*range(0, footer * 8, step), *range(footer * 8, len(content) * 8, 331)]
    num_errors = 0
    for place in places:
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        shard.write_bytes(changed)
        try:
            (got,) = run.clips()
        except RunError:
            num_errors += 1
        else:
            assert_same(got, clip)
    assert num_errors > len(places) / 2


def test_a_clip_that_is_nearly_named_is_suggested(tmp_path):
    run = write_run(tmp_path / "run", random_clip("signer1/hello"), random_clip("signer1/yes"))
    with pytest.raises(RunError, match=r"'signer1/helo'; did you mean 'signer1/hello'\?"):
        run["signer1/helo"]
