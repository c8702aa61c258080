import dataclasses
import json
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from posemill.clips.inputs import ClipInput
from posemill.errors import ConfigError, FormatError, RunError
from posemill.formats import get_format
from posemill.formats.shared.contract import Recipe
from posemill.geometry import fill_missing
from posemill.jobs.convert.between import count_export, export_clips
from posemill.jobs.convert.prepare import prepare
from posemill.jobs.convert.shaping import layout_for, shape_clip
from posemill.records import PoseClip
from posemill.runs.manifest import Manifest
from posemill.runs.reader import open_run
from posemill.runs.writer import RunWriter


def make_clip(seed, *, frames=10, split="train"):
    points = np.random.default_rng(seed).uniform(0.1, 0.9, (frames, 543, 3)).astype(np.float32)
    points[2:6, 501:522] = np.nan  # no left hand for four frames
    scores = np.where(np.isnan(points[..., 0]), 0, 0.5).astype(np.float32)
    return PoseClip(points, scores, np.full((frames, 2), 100, np.int32), clip_id=f"clip_{seed}",
                    split=split)  # fmt: skip


def write_run(folder, clips, **facts):
    with RunWriter(folder, Manifest(clips[0].skeleton_name, **facts)) as writer:
        for clip in clips:
            writer.add(clip)
    return folder


@pytest.fixture
def run(tmp_path):
    clips = (make_clip(1), make_clip(2, frames=6), make_clip(3, split="dev"))
    return write_run(tmp_path / "run", clips)


def test_every_split_has_its_arrays_and_statistics(run, tmp_path):
    made = prepare(ClipInput(run), tmp_path / "out", recipe=Recipe(normalize="shoulders"))
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["dev_keypoints.npz", "dev_stats.json", "train_keypoints.npz",
                     "train_stats.json"]  # fmt: skip
    assert [each.split for each in made] == ["train", "dev"]
    data = np.load(tmp_path / "out" / "train_keypoints.npz", allow_pickle=False)
    assert (data["keypoints"].shape, data["keypoints"].dtype) == ((16, 143, 3), np.float32)
    assert data["lengths"].tolist() == [10, 6]
    assert (data["keypoints"][~data["mask"]] == 0).all()
    stats = json.loads((tmp_path / "out" / "train_stats.json").read_text())
    found = data["keypoints"][data["mask"]]
    for axis, values in zip("xyz", found.T, strict=True):
        said = stats["coordinates"][axis]
        np.testing.assert_allclose(said["mean"], values.mean(dtype=np.float64), atol=1e-5)
        np.testing.assert_allclose(said["std"], values.std(dtype=np.float64), rtol=1e-4)
        np.testing.assert_allclose((said["min"], said["max"]), (values.min(), values.max()),
                                   rtol=1e-5)  # fmt: skip
    assert (stats["num_clips"], stats["num_frames"]) == (2, 16)
    assert stats["clip_frames"] == {"min": 6, "mean": 8.0, "max": 10}
    assert stats["parts"]["left_hand"]["missing_rate"] == 8 / 16
    assert stats["parts"]["left_hand"]["longest_gap"] == 4
    assert stats["parts"]["face"]["missing_rate"] == 0
    assert stats["longest_gap"] == 4
    assert stats["missing_rate"] == pytest.approx(1 - data["mask"].mean(), abs=1e-6)
    assert stats["options"] == Recipe(normalize="shoulders", fill="zero").to_dict()
    assert stats["skeleton"] == "holistic-143"
    assert stats["keypoints_file"] == "train_keypoints.npz"


@pytest.mark.parametrize("recipe", [
    Recipe(), Recipe(fill="nan"), Recipe(fill="interpolate"), Recipe(interpolate=2),
    Recipe(normalize="shoulders", interpolate=9), Recipe(normalize="bbox", layout="543"),
    Recipe(layout="openpose-18")], ids=str)  # fmt: skip
def test_blocks_give_what_clip_by_clip_gives(run, tmp_path, monkeypatch, recipe):
    """The borders of blocks do not show: one block of all clips, or one for each."""
    whole = prepare(ClipInput(run), tmp_path / "whole", recipe=recipe)
    monkeypatch.setattr("posemill.runs.shards.BLOCK_FRAMES", 1)
    single = prepare(ClipInput(run), tmp_path / "single", recipe=recipe)
    assert len(ClipInput(run).plan_splits()["train"]) > 1
    for one, other in zip(whole, single, strict=True):
        assert one.stats == other.stats
        first, second = np.load(one.path), np.load(other.path)
        assert first.files == second.files
        for name in first.files:
            np.testing.assert_array_equal(first[name], second[name], err_msg=name)
        form = get_format("npz")
        shaped = [shape_clip(clip, recipe, layout_for(clip.skeleton_name, recipe, form))
                  for clip in open_run(run).clips(one.split)]  # fmt: skip
        expected = [fill_missing(clip.points, recipe.fill or "zero") for clip in shaped]
        np.testing.assert_array_equal(first["keypoints"], np.concatenate(expected))


@pytest.mark.parametrize(
    "recipe",
    [Recipe(), Recipe(fill="interpolate"), Recipe(normalize="shoulders", interpolate=9),
     Recipe(smooth="gaussian"), Recipe(normalize="bbox"), Recipe(layout="openpose-18"),
     Recipe(layout="coco-133")],
    ids=str,
)  # fmt: skip
def test_all_points_and_143_points_give_the_same_files(tmp_path, recipe):
    """Points outside of the picture among the 400 that are left out move no bounding box."""
    clips = [make_clip(number, frames=number) for number in (9, 11, 30)]
    for clip in clips:
        clip.points[:, 33 + 1] = 7
        clip.scores[2:6, 501:522] = 0.25  # not found, but with a score
    write_run(tmp_path / "new", clips)
    write_run(tmp_path / "small", [clip.as_skeleton("holistic-143") for clip in clips])
    files = {}
    for name in ("new", "small"):
        (made,) = prepare(ClipInput(tmp_path / name), tmp_path / "out" / name, recipe=recipe)
        files[name] = made.path.read_bytes(), made.stats_path.read_bytes()
        assert bool(made.losses) == (name != "small" or recipe.layout is not None)
    assert files["new"] == files["small"]
    shaped = [shape_clip(clip, recipe, layout_for("holistic-543", recipe, get_format("npz")))
              for clip in clips]  # fmt: skip
    expected = [fill_missing(clip.points, recipe.fill or "zero") for clip in shaped]
    np.testing.assert_array_equal(np.load(made.path)["keypoints"], np.concatenate(expected))


def test_what_is_left_out_is_not_read(run, tmp_path):
    (shard,) = (run / "shards").iterdir()
    group = pq.ParquetFile(shard).metadata.row_group(0)
    columns = {group.column(i).path_in_schema.split(".")[0]: group.column(i)
               for i in range(group.num_columns)}  # fmt: skip
    content = bytearray(shard.read_bytes())
    for name in ("keypoints_other", "scores_other"):
        content[columns[name].data_page_offset + columns[name].total_compressed_size - 9] ^= 1
    whole = prepare(ClipInput(run), tmp_path / "whole")
    shard.write_bytes(content)
    for one, other in zip(whole, prepare(ClipInput(run), tmp_path / "part"), strict=True):
        assert one.path.read_bytes() == other.path.read_bytes()
    assert export_clips(ClipInput(run), "pkl", tmp_path / "a.pkl").num_frames == 26
    with pytest.raises(RunError, match="is damaged"):
        prepare(ClipInput(run), tmp_path / "out", recipe=Recipe(layout="543"))
    with pytest.raises(RunError, match="is damaged"):
        export_clips(ClipInput(run), "parquet", tmp_path / "a.parquet")


def test_pandas_is_not_imported_for_it(run, tmp_path):
    """That takes as long as preparing 20,000 frames; pyarrow does it when arrays are turned."""
    pytest.importorskip("pandas")
    code = (
        "import sys; from pathlib import Path; from posemill.clips.inputs import ClipInput; "
        "from posemill.jobs.convert.prepare import prepare; prepare(ClipInput(Path(sys.argv[1])), "
        "Path(sys.argv[2])); print('pandas' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(run), str(tmp_path / "out")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"
    assert (tmp_path / "out" / "dev_keypoints.npz").is_file()


def test_where_there_is_one_person_the_second_is_nobody(run, tmp_path):
    prepare(ClipInput(run, person="all"), tmp_path / "two", people=2)
    prepare(ClipInput(run), tmp_path / "one")
    two, one = (np.load(tmp_path / name / "dev_keypoints.npz") for name in ("two", "one"))
    assert two["keypoints"].shape == (10, 2, 143, 3)
    np.testing.assert_array_equal(two["keypoints"][:, 0], one["keypoints"])
    assert one["mask"].any()
    assert not two["mask"][:, 1].any()


def test_a_file_is_prepared_like_the_run_it_came_from(run, tmp_path):
    (made, _) = prepare(ClipInput(run), tmp_path / "a")
    (again,) = prepare(ClipInput(made.path), tmp_path / "b")
    assert made.stats == again.stats
    assert made.path.read_bytes() == again.path.read_bytes()


def test_gaps_are_those_of_clips_and_the_first_longest_names_its_clip(tmp_path):
    clips = [make_clip(number, frames=8) for number in (1, 2, 3)]
    clips[0].points[:] = np.nan
    clips[0].scores[:] = 0
    clips[1].points[:3] = np.nan  # a gap over the border would be 8 + 3 frames
    clips[1].scores[:3] = 0
    (made,) = prepare(ClipInput(write_run(tmp_path / "run", clips)), tmp_path / "out")
    assert made.stats["longest_gap"] == 8
    assert made.stats["parts"]["pose"]["longest_gap_clip"] == "clip_1"
    assert made.stats["clips_without_points_sample"] == ["clip_1"]
    assert made.stats["parts"]["pose"]["missing_rate"] == round(11 / 24, 6)


def test_a_clip_of_infinity_is_named_also_inside_a_block(tmp_path):
    clips = [make_clip(number) for number in (1, 2, 3)]
    clips[1].points[4, 520] = np.inf
    with pytest.raises(FormatError, match="clip 'clip_2' holds infinity"):
        prepare(ClipInput(write_run(tmp_path / "run", clips)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_whose_splits_are_mixed_is_refused(tmp_path):
    clips = [make_clip(1), make_clip(2, split="dev"), make_clip(3)]
    get_format("npz").write(clips, tmp_path / "a.npz", recipe=Recipe())
    with pytest.raises(FormatError, match=r"clips of split 'train' come in several places"):
        prepare(ClipInput(tmp_path / "a.npz"), tmp_path / "out")


@pytest.mark.parametrize("kind", ["file", "run"])
@pytest.mark.parametrize("split", ["../x", "a\tb", "x" * 300], ids=["path", "tab", "long"])
def test_a_split_that_cannot_be_a_file_is_refused_before_another_is_written(tmp_path, split, kind):
    path, clips = tmp_path / "a", [make_clip(1), make_clip(2, split=split)]
    if kind == "run":
        write_run(path, clips)
    else:
        path = tmp_path / "a.npz"
        get_format("npz").write(clips, path, recipe=Recipe())
    with pytest.raises(FormatError, match=r"name of split .* cannot be part of a file's name; lea"):
        prepare(ClipInput(path), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_split_may_be_named_in_any_letters_and_with_spaces(tmp_path):
    for split in ("val odd", "验证"):
        path = tmp_path / f"{split}.npz"
        get_format("npz").write([make_clip(1, split=split)], path, recipe=Recipe())
        (made,) = prepare(ClipInput(path), tmp_path / "out")
        assert made.path.name == f"{split}_keypoints.npz"
        (clip,) = ClipInput(made.path).clips()
        assert clip.split == split


def test_nothing_is_drawn_between_loose_pictures(tmp_path):
    pictures = {"path": "/data", "layout": "pictures"}
    merged = {"inputs": [{"kind": "pkl"}, {"manifest": {"source": pictures}}]}
    for name, origin in (("run", pictures), ("all", merged)):
        source = ClipInput(write_run(tmp_path / name, [make_clip(1)], source=origin))
        for recipe, option in ((Recipe(interpolate=2), "interpolate=2"),
                               (Recipe(fill="interpolate"), 'fill="interpolate"'),
                               (Recipe(smooth="savgol"), 'smooth="savgol"')):  # fmt: skip
            message = f"{name} holds loose pictures, .* in time: leave out {option}, or"
            with pytest.raises(ConfigError, match=message):
                prepare(source, tmp_path / "out", recipe=recipe)
            with pytest.raises(ConfigError, match=message):
                export_clips(source, "npz", tmp_path / "out.npz", recipe=recipe)
            with pytest.raises(ConfigError, match=message):
                count_export(source, "npz", recipe=recipe)
        assert len(prepare(source, tmp_path / f"out of {name}")) == 1


def test_points_that_are_left_out_are_said(run, tmp_path):
    said = "400 of 468 points of face (holistic-543 as holistic-143)"
    assert [each.losses for each in prepare(ClipInput(run), tmp_path / "out")] == [(said,)] * 2
    whole = prepare(ClipInput(run), tmp_path / "out", recipe=Recipe(layout="543"))
    assert [each.losses for each in whole] == [()] * 2
    assert prepare(ClipInput(tmp_path / "out"), tmp_path / "b")[0].losses == (said,)


def test_what_was_normalised_stays_so_in_name_when_it_is_prepared_again(run, tmp_path):
    prepare(ClipInput(run), tmp_path / "a", recipe=Recipe(normalize="shoulders", interpolate=2))
    (made, _) = prepare(ClipInput(tmp_path / "a"), tmp_path / "b", recipe=Recipe(fill="nan"))
    expected = Recipe(normalize="shoulders", interpolate=2, fill="nan").to_dict()
    assert made.stats["options"] == expected
    assert json.loads(str(np.load(made.path)["meta"][0]))["recipe"] == expected
    with pytest.raises(ConfigError, match=r"made with normalize=.shoulders. already"):
        prepare(ClipInput(tmp_path / "b"), tmp_path / "c", recipe=Recipe(normalize="bbox"))


def test_a_size_that_is_given_counts_where_a_run_has_none(tmp_path):
    clip = dataclasses.replace(make_clip(1), sizes_wh=np.zeros((10, 2), np.int32))
    bare = write_run(tmp_path / "bare", [clip])
    whole = write_run(tmp_path / "whole", [clip.with_size((200, 100))])
    recipe = Recipe(normalize="bbox")
    with pytest.raises(ConfigError, match="give it by size="):
        prepare(ClipInput(bare), tmp_path / "out", recipe=recipe)
    (given,) = prepare(ClipInput(bare, size_wh=(200, 100)), tmp_path / "a", recipe=recipe)
    (known,) = prepare(ClipInput(whole), tmp_path / "b", recipe=recipe)
    assert given.path.read_bytes() == known.path.read_bytes()
