import dataclasses
import os
import signal
import subprocess
import sys
import textwrap
import threading
from functools import partial

import numpy as np
import pytest

import posemill
from posemill.clips.inputs import ClipInput
from posemill.errors import ConfigError, FormatError, RunError
from posemill.formats import FORMATS, get_format
from posemill.formats.shared.contract import Recipe
from posemill.jobs.convert.between import count_export, digest_of, export_clips, merge_clips
from posemill.jobs.convert.prepare import prepare
from posemill.records import OtherPeople, PoseClip, nobody_else
from posemill.runs.manifest import Manifest
from posemill.runs.queries import Failure
from posemill.runs.reader import open_run
from posemill.runs.writer import RunWriter


def make_clip(seed, *, skeleton="holistic-543", **fields):
    rng = np.random.default_rng(seed)
    count = {"holistic-543": 543, "holistic-143": 143, "openpose-18": 18}[skeleton]
    points = rng.uniform(0.1, 0.9, (8, count, 3)).astype(np.float32)
    scores = rng.uniform(0.1, 1, (8, count)).astype(np.float32)
    points[3, -21:] = np.nan
    scores[3, -21:] = 0
    names = tuple(f"{seed}/{i:03d}.png" for i in range(8))
    chosen = {"clip_id": f"clip_{seed}", "split": "train", "label": "A", "image_paths": names}
    return PoseClip(points, scores, np.full((8, 2), (200, 100), np.int32), skeleton,
                    **(chosen | fields))  # fmt: skip


def write_run(folder, *clips, failures=()):
    with RunWriter(folder, Manifest(clips[0].skeleton_name, engine={"engine": "fake"})) as writer:
        for failure in failures:
            writer.add_failure(failure)
        for clip in clips:
            writer.add(clip)
    return folder


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "run", make_clip(1), make_clip(2), make_clip(3, split="dev"))


@pytest.mark.parametrize("name", list(FORMATS))
def test_a_run_gives_what_a_file_of_all_its_points_gives(run, tmp_path, name):
    """Of a run only the points that are needed are read; a file has been read whole."""
    export_clips(ClipInput(run), "hdf5", tmp_path / "all.h5", recipe=Recipe(layout="543"))
    said, read = [], []
    for source in (run, tmp_path / "all.h5"):
        out = tmp_path / source.stem / f"file{get_format(name).suffix}"
        summary = export_clips(ClipInput(source), name, out)
        _, layouts = count_export(ClipInput(source), name, recipe=Recipe())
        said.append((summary.losses, summary.recipe, layouts))
        read.append([digest_of(clip) for clip in ClipInput(out, size_wh=(200, 100)).clips()])
    assert said[0] == said[1]
    assert read[0] == read[1]
    assert len(read[0]) == 3


@pytest.mark.parametrize("layout", [None, "143", "openpose-18"])
def test_runs_of_all_points_are_merged_in_any_layout(tmp_path, layout):
    write_run(tmp_path / "one", make_clip(1), make_clip(2))
    write_run(tmp_path / "two", make_clip(2), make_clip(3))
    sources = [ClipInput(tmp_path / name) for name in ("one", "two")]
    summary = merge_clips(sources, tmp_path / "all", recipe=Recipe(layout=layout))
    assert (summary.num_clips, summary.equal_duplicates) == (3, 1)
    assert all("holistic-543 as" in words for words in summary.losses)
    assert len(summary.losses) == (0 if layout is None else 1)
    merged = open_run(tmp_path / "all")
    for number, clip in enumerate(merged.clips(), start=1):
        assert digest_of(clip) == digest_of(make_clip(number).as_skeleton(merged.skeleton_name))


@pytest.mark.parametrize("name", list(FORMATS))
def test_a_run_goes_into_every_format_and_comes_back_as_a_run(run, tmp_path, name):
    out = tmp_path / f"file{get_format(name).suffix}"
    summary = export_clips(ClipInput(run), name, out)
    counts = (summary.num_clips, summary.num_frames, summary.splits)
    assert counts == (3, 24, {"train": 2, "dev": 1})
    source = ClipInput(out, size_wh=(200, 100))
    assert source.kind == name
    merge_clips([source], tmp_path / "back", kind="import")
    back = open_run(tmp_path / "back")
    assert set(back.splits) == {"train", "dev"}
    assert back.num_frames == 24
    assert back.manifest.kind == "import"
    originals = {clip.clip_id: clip for clip in open_run(run).clips()}
    for clip in back.clips():
        expected = originals[clip.clip_id].as_skeleton(back.skeleton_name)
        np.testing.assert_array_equal(clip.mask, expected.mask)
        np.testing.assert_allclose(clip.points[..., :2], expected.points[..., :2], atol=1e-5)


@pytest.mark.parametrize(
    ("name", "recipe", "message"),
    [
        ("txt", Recipe(layout="143"), "txt holds openpose-18, not holistic-143: choose another"),
        ("coco", Recipe(normalize="bbox"), "coco holds pixels of the picture, normalize="),
        ("pkl", Recipe(fill="nan"), "pkl has its own mark for missing points; leave out fill="),
    ],
)
def test_a_recipe_the_format_cannot_hold_is_refused(run, tmp_path, name, recipe, message):
    with pytest.raises(ConfigError, match=message):
        export_clips(ClipInput(run), name, tmp_path / "x", recipe=recipe)
    assert not (tmp_path / "x").exists()


def test_merging_keeps_every_clip_and_says_where_they_came_from(run, tmp_path):
    other = write_run(tmp_path / "other", make_clip(2), make_clip(4, split="test"))
    summary = merge_clips([ClipInput(run), ClipInput(other)], tmp_path / "all")
    assert (summary.num_clips, summary.equal_duplicates) == (4, 1)
    merged = open_run(tmp_path / "all")
    assert merged.splits == ("train", "dev", "test")
    assert merged.is_finished
    assert merged.manifest.engine == {"engine": "fake"}
    assert [each["path"] for each in merged.manifest.source["inputs"]] == [str(run), str(other)]
    assert digest_of(merged.clip("clip_2")) == digest_of(make_clip(2))
    with RunWriter(tmp_path / "third", Manifest("holistic-543", engine={"engine": "x"})) as writer:
        writer.add(make_clip(9))
    merge_clips([ClipInput(run), ClipInput(tmp_path / "third")], tmp_path / "mixed")
    assert open_run(tmp_path / "mixed").manifest.engine == {}


def test_clips_with_the_same_people_in_other_frames_differ_and_nobody_is_as_not_looked_for():
    clip, points = make_clip(1), np.zeros((1, 543, 3), np.float32)
    first, second = (
        dataclasses.replace(clip, others=OtherPeople(counts, points, points[..., 0]))
        for counts in np.eye(8, dtype=np.int64)[:2]
    )
    assert digest_of(first) != digest_of(second)
    assert digest_of(dataclasses.replace(clip, others=nobody_else(8, 543))) == digest_of(clip)


def lost(clip_id, frame_index, num_frames=1, split="train"):
    return Failure(clip_id, split, frame_index, num_frames, f"{clip_id}.png", "not a picture",
                   f"{clip_id}: broken at {frame_index}")  # fmt: skip


def test_merging_keeps_the_failures_of_its_inputs_with_their_reasons(tmp_path):
    found = [lost("clip_1", 4), lost("gone", None, 7), lost("unknown", None, 0, split="dev")]
    one = write_run(tmp_path / "one", make_clip(1), make_clip(3, split="dev"), failures=found)
    two = write_run(tmp_path / "two", make_clip(2), failures=[lost("clip_2", 9)])
    assert merge_clips([ClipInput(one), ClipInput(two)], tmp_path / "all").num_failures == 4
    merged = open_run(tmp_path / "all")
    assert {each.message: each for each in merged.failures()} == {
        each.message: each for each in [*found, lost("clip_2", 9)]
    }
    counts = {each.split: each for each in merged.counts}
    frames = 2 * len(make_clip(1))
    assert (counts["train"].num_clips, counts["train"].clips_done) == (3, 3)
    assert counts["train"].frames_failed == 9
    assert (counts["train"].frames_out, counts["train"].frames_known) == (frames, frames + 9)
    assert (counts["dev"].num_clips, counts["dev"].frames_failed) == (2, 0)
    assert [clip.clip_id for clip in merged.clips()] == ["clip_1", "clip_3", "clip_2"]
    assert merge_clips([ClipInput(tmp_path / "all")], tmp_path / "again").num_failures == 4
    assert open_run(tmp_path / "again").failures() == merged.failures()
    merge_clips([ClipInput(tmp_path / "all", splits=["dev"])], tmp_path / "dev")
    assert open_run(tmp_path / "dev").failures() == found[2:]


def test_an_export_of_a_file_for_each_picture_says_how_many_have_none(tmp_path):
    clip = make_clip(1, skeleton="openpose-18")
    run = write_run(tmp_path / "my run", clip, failures=[lost("clip_1", 9), lost("clip_1", 10)])
    whole = write_run(tmp_path / "whole", clip)
    for name in ("txt", "openpose"):
        losses = export_clips(ClipInput(run), name, tmp_path / name).losses
        (words,) = (loss for loss in losses if "no file" in loss)
        assert words.startswith("2 pictures have no file")
        assert f"posemill status '{run}' --failures" in words
        losses = export_clips(ClipInput(whole), name, tmp_path / f"whole {name}").losses
        assert not any("no file" in loss for loss in losses)


def test_a_failure_that_another_input_made_good_is_not_kept(tmp_path):
    tried = [lost("clip_1", None, 5), lost("gone", 1)]
    one = write_run(tmp_path / "one", make_clip(2), failures=tried)
    two = write_run(tmp_path / "two", make_clip(1), make_clip(2), failures=tried[1:])
    merge_clips([ClipInput(one), ClipInput(two)], tmp_path / "all")
    assert open_run(tmp_path / "all").failures() == tried[1:]


def test_clips_that_differ_are_all_named_and_nothing_is_written(run, tmp_path):
    changed = [dataclasses.replace(make_clip(i), label="B") for i in (1, 2)]
    other = write_run(tmp_path / "other", *changed)
    said = r"2 clips came twice with different content(.|\n)*train/clip_1 \(.*run and .*other\)\n"
    with pytest.raises(RunError, match=said + "  train/clip_2"):
        merge_clips([ClipInput(run), ClipInput(other)], tmp_path / "all")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "run"]


def test_runs_of_two_skeletons_need_a_layout(run, tmp_path):
    small = write_run(tmp_path / "small", make_clip(9, skeleton="holistic-143"))
    sources = [ClipInput(run), ClipInput(small)]
    said = r"run has holistic-543, .*small has holistic-143; give a skel"
    with pytest.raises(RunError, match=said):
        merge_clips(sources, tmp_path / "all")
    merge_clips(sources, tmp_path / "all", recipe=Recipe(layout="143"))
    assert len(open_run(tmp_path / "all")) == 4


def test_a_place_that_cannot_be_written_is_named(run, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(FormatError, match=r"a\.npz: cannot be written: .*file is a file, exp"):
        export_clips(ClipInput(run), "npz", tmp_path / "file" / "a.npz")
    with pytest.raises(FormatError, match="cannot be written"):
        merge_clips([ClipInput(run)], tmp_path / "file" / "x")


def test_a_dry_run_reads_everything_and_nothing_is_written_over(run, tmp_path):
    with pytest.raises(RunError, match="holds a run already; choose another folder"):
        merge_clips([ClipInput(run)], run)
    assert merge_clips([ClipInput(run)], tmp_path / "all", dry_run=True).num_clips == 3
    assert not (tmp_path / "all").exists()
    merge_clips([ClipInput(run)], run, overwrite=True)
    (run / "shards" / "my notes").touch()
    with pytest.raises(ConfigError, match="run also holds 'shards/my notes', which posemill did"):
        merge_clips([ClipInput(run)], run, overwrite=True)


@pytest.mark.parametrize("name", ["txt", "openpose", "pose", "huggingface"])
def test_an_export_is_replaced_and_no_file_that_was_added_to_it(run, tmp_path, name):
    for _ in range(2):
        export_clips(ClipInput(run), name, tmp_path / "out", overwrite=True)
    (tmp_path / "out" / "my 000.txt").touch()
    for overwrite in (True, False):
        with pytest.raises(ConfigError, match="out also holds 'my 000"):
            export_clips(ClipInput(run), name, tmp_path / "out", overwrite=overwrite)


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from posemill.jobs.convert.between import export_clips
    from posemill.clips.inputs import ClipInput

    def watch(clips, total):
        for number, clip in enumerate(clips):
            if number == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            yield clip

    export_clips(ClipInput(Path(sys.argv[1])), sys.argv[2], Path(sys.argv[3]), watch=watch)
"""


@pytest.mark.parametrize("name", ["npz", "txt"])
def test_a_killed_export_leaves_the_old_file_or_none(run, tmp_path, name):
    out = tmp_path / "out" / f"file{get_format(name).suffix}"
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(run), name, str(out)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL
    assert not out.exists()
    export_clips(ClipInput(run, splits=["dev"]), name, out)
    assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL
    assert [clip.clip_id for clip in ClipInput(out).clips()] == ["clip_3"]
    export_clips(ClipInput(run), name, out)
    assert len(list(ClipInput(out).clips())) == 3


def normalised(run, out, name="npz", how="shoulders"):
    export_clips(ClipInput(run), name, out, recipe=Recipe(normalize=how))
    return out


@pytest.mark.parametrize("name", [name for name in FORMATS if not get_format(name).has_pixels])
def test_a_run_of_a_normalised_file_is_not_taken_for_pixels(run, tmp_path, name):
    path = normalised(run, tmp_path / f"file{get_format(name).suffix}", name)
    merge_clips([ClipInput(path)], tmp_path / "back", kind="import")
    back = open_run(tmp_path / "back")
    assert back.manifest.options["recipe"]["normalize"] == "shoulders"
    assert {clip.normalized for clip in back.clips()} == {"shoulders"}
    for source in (path, tmp_path / "back"):
        with pytest.raises(FormatError, match="txt holds pixels of the picture, but clip"):
            export_clips(ClipInput(source), "txt", tmp_path / "txt")
        with pytest.raises(FormatError, match="txt holds pixels of the picture, but clip"):
            count_export(ClipInput(source), "txt", recipe=Recipe())
        with pytest.raises(ConfigError, match=r"made with normalize=.shoulders. already"):
            export_clips(ClipInput(source), "npz", tmp_path / "x", recipe=Recipe(normalize="bbox"))


def test_merging_different_normalisations_is_refused_by_name(run, tmp_path):
    one = normalised(run, tmp_path / "one.npz")
    other = normalised(run, tmp_path / "other.npz", how="none")
    with pytest.raises(RunError, match=r"one.npz has shoulders, .*other.npz has none; merge"):
        merge_clips([ClipInput(one), ClipInput(other)], tmp_path / "all")
    with pytest.raises(RunError, match="expected runs or exported files to merge, got none"):
        posemill.merge([], out=tmp_path / "all")
    assert not (tmp_path / "all").exists()


def test_a_merged_run_says_the_longest_gap_that_was_closed(tmp_path):
    paths = []
    for number, interpolate in ((1, 0), (2, 5), (3, 2)):
        run = write_run(tmp_path / f"run{number}", make_clip(number))
        paths.append(tmp_path / f"{number}.npz")
        export_clips(ClipInput(run), "npz", paths[-1], recipe=Recipe(interpolate=interpolate))
    merge_clips([ClipInput(path) for path in paths], tmp_path / "all")
    assert open_run(tmp_path / "all").clip("clip_3").interpolated == 5


def test_a_run_of_an_unknown_recipe_is_refused(tmp_path):
    manifest = Manifest("holistic-543", options={"recipe": {"normalize": "hips"}})
    with RunWriter(tmp_path / "run", manifest) as writer:
        writer.add(make_clip(1))
    with pytest.raises(RunError, match="a recipe with unknown normalize 'hips'; known: none"):
        open_run(tmp_path / "run")


def test_the_reading_threads_end_with_an_error_that_somebody_keeps(run, tmp_path):
    export_clips(ClipInput(run), "pkl", tmp_path / "a.pkl")
    kept = []
    for write in (partial(export_clips, format_name="npz"), prepare):
        with pytest.raises(ConfigError, match="needs the size of the pictures") as caught:
            write(
                ClipInput(tmp_path / "a.pkl"), out=tmp_path / "x", recipe=Recipe(normalize="bbox")
            )
        kept.append(caught.value)
    assert not [each for each in threading.enumerate() if each.name.startswith("read-ahead")]
