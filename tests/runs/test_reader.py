import json
import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from posemill.errors import MissingExtraError, RunError
from posemill.runs import reader
from posemill.runs.manifest import Manifest
from posemill.runs.queries import Failure, SplitCounts
from posemill.runs.reader import Outline, open_run
from posemill.runs.shards import read_rows
from posemill.runs.writer import RunWriter
from tests.runs.conftest import change_ledger, small_clip

FAILURE = Failure("lost", "dev", None, 0, "p", "truncated", "cut off")


@pytest.fixture
def run(tmp_path):
    """`train` has b and a, `dev` a and a clip that was lost; the clips of train share a shard."""
    manifest = Manifest(
        "openpose-18", options={"recipe": {"normalize": "shoulders", "interpolate": 3}}
    )
    with RunWriter(tmp_path / "run", manifest, rows_per_shard=5) as writer:
        writer.add(small_clip("b", 3, start=10))
        writer.add(small_clip("a", 2, start=20))
        writer.add(small_clip("a", 1, start=30, split="dev"))
        writer.add_failure(FAILURE)
    return open_run(str(tmp_path / "run"))


def outline(split, clip_id, *counts, **more):
    made = {"normalized": "shoulders", "interpolated": 3}
    return Outline(split, clip_id, "openpose-18", *counts, **made, **more)


def test_a_run_says_what_it_holds(run, tmp_path):
    assert repr(run) == (
        f"Run({str(tmp_path / 'run')!r}, openpose-18, train 5 frames, dev 1 frame, finished)"
    )
    assert (len(run), run.num_frames, run.splits) == (4, 6, ("train", "dev"))
    assert os.fspath(run) == str(tmp_path / "run")
    assert run.is_finished is True
    assert run.counts == [
        SplitCounts("train", 2, 2, 5, 5, 0, 0), SplitCounts("dev", 2, 2, 1, 1, 0, 1),
    ]  # fmt: skip
    assert run.failures() == [FAILURE]
    RunWriter(tmp_path / "other", Manifest("openpose-18")).finish()
    change_ledger(tmp_path / "other", "DELETE FROM meta WHERE key = 'finished_at'")
    assert repr(open_run(tmp_path / "other")).endswith("openpose-18, empty, not finished)")
    path = run.folder / "manifest.json"
    content = json.loads(path.read_text())
    content["options"]["recipe"] = {"normalize": "sideways"}
    path.write_text(json.dumps(content))
    with pytest.raises(RunError, match="run: its manifest has a recipe with unknown"):
        open_run(run.folder)


def test_clips_are_asked_for_by_id_or_by_split_and_id(run):
    assert "b" in run
    assert ("train", "b") in run
    assert ("dev", "b") not in run
    assert ("test", "b") not in run
    assert "c" not in run
    assert len(run["b"]) == 3
    assert run["dev", "a"].points[0, 0, 0] == 30
    assert run["train", "a"].points[0, 0, 0] == 20
    for key in (3, ("a",), ("train", "a", "x")):
        with pytest.raises(TypeError, match="expected the id of a clip, or"):
            run[key]


def test_a_clip_that_is_not_there_or_twice_says_what_to_do(run):
    with pytest.raises(RunError, match=r"has no keypoints of a clip 'zzz'; clip_ids\(\) lists"):
        run["zzz"]
    with pytest.raises(RunError, match=r"'a' is in several .*\(dev, train\).*run\['train', 'a'\]"):
        run["a"]
    for ask in (run.clip_ids, run.table, run.to_numpy, run.outlines):
        with pytest.raises(RunError, match="has no split 'test'; it has train, dev"):
            list(ask("test"))


def test_ids_and_clips_come_in_reading_order_and_say_what_was_done_to_them(run):
    assert run.clip_ids() == ["b", "a", "a"]
    assert run.clip_ids("train") == ["b", "a"]
    assert run.clip_ids("dev") == ["a"]
    assert [(clip.split, clip.clip_id, len(clip)) for clip in run] == [
        ("train", "b", 3), ("train", "a", 2), ("dev", "a", 1),
    ]  # fmt: skip
    assert [clip.split for clip in run.clips("dev")] == ["dev"]
    for clip in (next(run.clips()), run["b"]):
        assert clip.run_folder == str(run.folder)
        assert (clip.normalized, clip.interpolated) == ("shoulders", 3)
        assert (clip.scores == 0.5).all()
    one, other = list(run.clips("train"))
    for name in ("points", "scores"):
        assert getattr(one, name).flags.owndata
        assert not np.shares_memory(getattr(one, name), getattr(other, name))


def test_of_a_glance_at_each_clip_one_row_is_read(run, monkeypatch):
    asked = []

    def watch(folder, plan, *more, **named):
        asked.append(len(plan))
        return read_rows(folder, plan, *more, **named)

    monkeypatch.setattr(reader, "read_rows", watch)
    found = run.middle_frames("train")
    assert [(clip.clip_id, *clip.frame_indices) for clip in found] == [("b", 1), ("a", 1)]
    assert asked == [1, 1]
    change_ledger(run.folder, "UPDATE pieces SET clip_no = 1, first_frame = 3 WHERE clip_no = 2")
    (both,) = run.middle_frames("train")  # five rows in two pieces: the third is b's last
    assert (both.points == 12).all()


def test_what_was_found_is_known_without_the_shards(run):
    for path in (run.folder / "shards").iterdir():
        path.unlink()
    assert list(run.outlines("train")) == [
        outline("train", "b", 3, (2,), {(210, 260): 3}),
        outline("train", "a", 2, (1,), {(210, 260): 2}),
    ]
    assert list(run.outlines("dev")) == [outline("dev", "a", 1, (1,), {(210, 260): 1})]


def test_clips_with_the_same_record_can_be_counted_together(run):
    change_ledger(run.folder, "UPDATE pieces SET num_rows = 1, found = '[[1],[[210,260,1]]]'")
    (both,) = run.outlines("train", is_grouped=True)
    assert both == outline("train", "b", 1, (1,), {(210, 260): 1}, num_clips=2)
    # Pieces of a clip are summed up.
    change_ledger(run.folder, "UPDATE pieces SET clip_no = 1, first_frame = 3 WHERE clip_no = 2")
    change_ledger(
        run.folder,
        "UPDATE pieces SET num_rows = 2, found = '[[1],[[210,260,1],[8,9,1]]]' WHERE piece_no = 2",
    )
    for is_grouped in (False, True):
        (both,) = run.outlines("train", is_grouped=is_grouped)
        assert both == outline("train", "b", 3, (2,), {(210, 260): 2, (8, 9): 1})


@pytest.mark.parametrize("found", ["{", "3", "[[1,2],[]]", '[["x"],[]]', "[[1],[[2,3]]]",
                                   "[[null],[]]", None])  # fmt: skip
def test_records_that_are_nonsense_name_the_clip(run, found):
    change_ledger(run.folder, "UPDATE pieces SET found = ? WHERE piece_no = 1", found)
    for is_grouped in (False, True):
        with pytest.raises(RunError) as caught:
            list(run.outlines("train", is_grouped=is_grouped))
        assert caught.value.sentence.values == {"folder": run.folder, "clip_id": "b"}


def test_a_table_has_the_rows_of_a_split_and_the_columns_asked_for(run):
    assert run.table("train", ["clip_id", "frame_index"]).to_pydict() == {
        "clip_id": ["b", "b", "b", "a", "a"], "frame_index": [0, 1, 2, 0, 1],
    }  # fmt: skip
    assert run.table(columns=["clip_id"]).to_pydict() == {"clip_id": ["b"] * 3 + ["a"] * 3}
    assert run.table().num_columns == 12
    with pytest.raises(ValueError, match=r"^no columns \['x'\]; a run has split, clip_id, frame"):
        run.table(columns=["x", "clip_id"])
    frame = run.to_pandas("dev", ["clip_id", "width"])
    assert frame.to_dict("list") == {"clip_id": ["a"], "width": [210]}


def test_arrays_are_one_clip_behind_the_other(run):
    arrays = run.to_numpy()
    assert arrays["clip_starts"].tolist() == [0, 3, 5, 6]
    assert arrays["clip_starts"].dtype == np.int64
    assert arrays["clip_ids"] == ["b", "a", "a"]
    np.testing.assert_array_equal(arrays["points"][:, 0, 0], [10, np.nan, 12, 20, np.nan, 30])
    assert arrays["frame_indices"].tolist() == [0, 1, 2, 0, 1, 0]
    assert (arrays["scores"].shape, arrays["sizes_wh"].shape) == ((6, 18), (6, 2))
    dev = run.to_numpy("dev")
    assert (dev["points"].shape, dev["clip_starts"].tolist()) == ((1, 18, 3), [0, 1])


def test_an_empty_run_has_arrays_without_rows(tmp_path):
    RunWriter(tmp_path / "run", Manifest("openpose-18")).finish()
    empty = open_run(tmp_path / "run")
    assert empty.to_numpy()["points"].shape == (0, 18, 3)
    assert empty.to_numpy()["clip_starts"].tolist() == [0]
    assert empty.table(columns=["clip_id"]).to_pydict() == {"clip_id": []}
    with pytest.raises(RunError, match="has no split 'train'; it has none"):
        empty.clip_ids("train")


def test_tensors_share_the_values_and_a_package_that_is_missing_is_named(run, monkeypatch):
    fake = SimpleNamespace(from_numpy=lambda values: ("tensor", values))
    monkeypatch.setitem(sys.modules, "torch", fake)
    tensors = run.to_torch("train")
    assert tensors["points"][1].shape == (5, 18, 3)
    assert (tensors["clip_starts"][0], tensors["clip_ids"]) == ("tensor", ["b", "a"])
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match="needs 'torch', which is not installed"):
        run.to_torch()
