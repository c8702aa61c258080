"""Two runs of the same clips: who is paired with whom, in which layout, and what is measured."""

import dataclasses
import json

import numpy as np
import pytest
from made_up_people import write_run

import posemill
from posemill.clips.inputs import ClipInput
from posemill.errors import ConfigError, PosemillError
from posemill.inspection.comparison.measure import WORST_KEPT, Comparison
from posemill.inspection.comparison.pairs import Pairing, choose_layout


def moved(clip, pixels, part=None, **changes):
    """Return a clip whose points, or those of a part, lie so many pixels to the right."""
    clip = dataclasses.replace(clip, points=clip.points.copy(), **changes)
    points = clip.points if part is None else clip.part(part)
    points[..., 0] += pixels / clip.sizes_wh[0, 0]
    return clip


def without(clip, part, frames):
    clip = dataclasses.replace(clip, points=clip.points.copy(), scores=clip.scores.copy())
    clip.part(part)[frames] = np.nan
    clip.scores[np.isnan(clip.points[..., 0])] = 0
    return clip


def compared(one, other, **options):
    pairing = Pairing(ClipInput(one), ClipInput(other), **options)
    return Comparison(pairing, pairing.clips()).to_dict()


def test_agreement_and_distances_are_those_of_the_definition(make_clip, tmp_path):
    """As ../shared/tools/compare_landmarks.py has them: over all points, with numpy."""
    rng = np.random.default_rng(0)
    clips = [make_clip(30, clip_id=f"c{number}", split="train") for number in range(3)]
    others = []
    for clip in clips:
        noise = rng.exponential(0.002, clip.points.shape).astype(np.float32)
        others.append(dataclasses.replace(clip, points=clip.points + noise))
    clips[0] = without(clips[0], "face", slice(0, 9))
    others[0] = without(others[0], "face", slice(6, 14))
    found = compared(write_run(tmp_path / "a", *clips), write_run(tmp_path / "b", *others))
    assert (found["num_clips"], found["num_frames"], found["num_points"]) == (3, 90, 543)
    (split,) = found["splits"]
    for part in clips[0].skeleton.parts:
        a, b = (np.concatenate([clip.part(part.name)[..., :2] for clip in side])
                for side in (clips, others))  # fmt: skip
        has_a, has_b = (~np.isnan(each).any((1, 2)) for each in (a, b))
        both = has_a & has_b
        pixels = np.linalg.norm((a[both].astype(float) - b[both]) * [320, 240], axis=-1)
        row = split["parts"][part.name]
        assert row["agree"] == (has_a == has_b).mean()
        assert (row["one_has"], row["other_has"], row["both"]) == (
            has_a.sum(), has_b.sum(), both.sum(),
        )  # fmt: skip
        assert row["median"] == pytest.approx(np.median(pixels), rel=1e-3)
        assert row["p95"] == pytest.approx(np.percentile(pixels, 95), rel=1e-3)
        assert row["max"] == pytest.approx(pixels.max(), rel=1e-6)
    assert split["parts"]["face"]["agree"] == pytest.approx(1 - 11 / 90)


def test_runs_that_are_the_same_differ_in_nothing(make_clip, tmp_path):
    clips = [make_clip(5, clip_id="a", split="train"), make_clip(4, clip_id="b", split="dev")]
    found = compared(write_run(tmp_path / "a", *clips), write_run(tmp_path / "b", *clips))
    assert [each["split"] for each in found["splits"]] == ["train", "dev", "all splits"]
    assert [each["parts"]["pose"]["both"] for each in found["splits"]] == [5, 4, 9]
    assert found["splits"][-1]["num_frames"] == 9
    for split in found["splits"]:
        for part in split["parts"].values():
            assert (part["agree"], part["max"]) == (1.0, 0.0)
    assert found["apart"] == found["found_by_one_only"] == found["differences"] == []


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1, 0, 2]])
@pytest.mark.parametrize("kind", ["run", "file"])
def test_clips_are_matched_by_name_in_whatever_order(make_clip, tmp_path, order, kind):
    clips = [make_clip(3, clip_id=f"c{n}", split="train", step=0.01 * n) for n in range(4)]
    extra = make_clip(2, clip_id="more", split="train")
    one = write_run(tmp_path / "a", *clips[:2], extra, *clips[2:])
    others = [moved(clips[number], 4.0) for number in order]
    other = write_run(tmp_path / "b", make_clip(7, clip_id="x", split="train"), *others)
    if kind == "file":
        posemill.export(other, out=tmp_path / "b.pkl")
        other = tmp_path / "b.pkl"
    found = compared(one, other)
    assert found["num_clips"] == 4
    assert found["splits"][0]["parts"]["pose"]["median"] == pytest.approx(4, rel=1e-3)
    assert found["splits"][0]["parts"]["pose"]["max"] == pytest.approx(4, rel=1e-3)
    assert found["one"]["clips_only_here"] == 1
    assert found["one"]["first_clips_only_here"] == ["train/more"]
    assert found["other"]["first_clips_only_here"] == ["train/x"]


def test_a_split_may_go_by_its_other_name(make_clip, tmp_path):
    one = write_run(tmp_path / "a", make_clip(3, clip_id="c", split="dev"))
    other = write_run(tmp_path / "b", make_clip(3, clip_id="c", split="validation"))
    assert [each["split"] for each in compared(one, other)["splits"]] == ["dev"]


def test_frames_of_one_run_only_are_counted_and_left_out(make_clip, tmp_path):
    whole = make_clip(10, clip_id="c")
    rows = np.array([0, 1, 2, 5, 6, 7, 8])
    some = dataclasses.replace(
        moved(whole, 2.0), points=moved(whole, 2.0).points[rows], scores=whole.scores[rows],
        sizes_wh=whole.sizes_wh[rows], frame_indices=rows,
    )  # fmt: skip
    found = compared(write_run(tmp_path / "a", whole), write_run(tmp_path / "b", some))
    assert found["num_frames"] == 7
    assert (found["one"]["frames_only_here"], found["other"]["frames_only_here"]) == (3, 0)
    assert found["splits"][0]["parts"]["face"]["max"] == pytest.approx(2, rel=1e-4)


def test_the_worst_frames_are_one_of_a_clip(make_clip, tmp_path):
    clips = [make_clip(6, clip_id=f"c{number}") for number in range(WORST_KEPT + 3)]
    others = [moved(clip, number, "left_hand") for number, clip in enumerate(clips)]
    points = others[3].points.copy()
    points[4, 33:501, 0] += 100 / 320
    others[3] = dataclasses.replace(others[3], points=points)
    others[5] = without(without(others[5], "face", slice(2, 4)), "pose", slice(3, 6))
    found = compared(write_run(tmp_path / "a", *clips), write_run(tmp_path / "b", *others))
    apart = found["apart"]
    assert [each["clip_id"] for each in apart] == ["c3", "c10", "c9", "c8", "c7", "c6", "c5", "c4"]
    assert (apart[0]["frame_index"], apart[0]["parts"]) == (4, ("face",))
    assert apart[0]["badness"] == pytest.approx(100, rel=1e-3)
    assert apart[1]["parts"] == ("left_hand",)
    assert apart[1]["badness"] == pytest.approx(10, rel=1e-3)
    (only,) = found["found_by_one_only"]
    assert (only["clip_id"], only["frame_index"], only["badness"]) == ("c5", 3, 2)
    assert only["parts"] == ("pose", "face")
    json.dumps(found)


@pytest.mark.parametrize(
    ("one", "other", "layout", "num_points"),
    [
        ("holistic-543", "holistic-543", "holistic-543", 543),
        ("holistic-543", "holistic-143", "holistic-143", 143),
        ("holistic-553", "holistic-543", "holistic-543", 543),
        ("holistic-543", "openpose-18", "openpose-18", 18),
        ("openpose-18", "coco-17", "coco-17", 17),
        ("holistic-143", "coco-133", "coco-133", 131),  # no small toes
    ],
)
def test_two_skeletons_are_compared_in_the_points_of_both(one, other, layout, num_points):
    for pair in ((one, other), (other, one)):
        name, shared = choose_layout(*pair)
        assert (name, int(shared.sum())) == (layout, num_points)


def test_runs_of_two_skeletons_are_measured_in_a_third(make_clip, tmp_path):
    one = make_clip(5, clip_id="c")
    other = moved(one.as_skeleton("openpose-18"), 3.0)
    found = compared(write_run(tmp_path / "a", one), write_run(tmp_path / "b", other))
    assert (found["skeleton_name"], found["num_points"]) == ("openpose-18", 18)
    assert [row["max"] for row in found["splits"][0]["parts"].values()] == [pytest.approx(3, 1e-3)]
    found = compared(tmp_path / "a", tmp_path / "b", layout="coco-17")
    assert (found["skeleton_name"], found["num_points"]) == ("coco-17", 17)
    with pytest.raises(
        ConfigError, match="openpose-18 have no points to be compared as holistic-5"
    ):
        compared(tmp_path / "a", tmp_path / "b", layout="holistic-543")


def test_what_cannot_be_compared_is_said(make_clip, tmp_path):
    one = write_run(tmp_path / "a", make_clip(3, clip_id="c", split="train"))
    other = write_run(tmp_path / "b", make_clip(3, clip_id="d", split="train"))
    message = r"have no clip in common: train/c … are not train/d …; expected two runs of the same"
    with pytest.raises(PosemillError, match=message):
        compared(one, other)
    posemill.prepare(one, tmp_path / "data", normalize="shoulders")
    with pytest.raises(PosemillError, match="normalised by shoulders and have no place in the pic"):
        compared(one, tmp_path / "data" / "train_keypoints.npz")


def test_sizes_come_from_the_side_that_knows_them(make_clip, tmp_path):
    known = make_clip(3, clip_id="c", size_wh=(100, 100))
    unknown = make_clip(3, clip_id="c", size_wh=(0, 0))
    far = dataclasses.replace(known, points=known.points + np.float32([0.1, 0, 0]))
    one, other = write_run(tmp_path / "a", unknown), write_run(tmp_path / "b", far)
    for pair in ((one, other), (other, one)):
        part = compared(*pair)["splits"][0]["parts"]["pose"]
        assert part["max"] == pytest.approx(10, rel=1e-4)
    third = write_run(tmp_path / "c", unknown)
    with pytest.raises(PosemillError, match=r"clip 'c': neither side says how lar.* size=.1280"):
        compared(one, third)


def test_settings_that_differ_are_listed(make_clip, tmp_path):
    clip = make_clip(3, clip_id="c")
    one = write_run(
        tmp_path / "a", clip, engine={"engine": "x", "v": "1"}, options={"mode": "auto"}
    )
    other = write_run(tmp_path / "b", clip, engine={"engine": "x"}, options={"mode": "image"})
    rows = {each["setting"]: (each["one"], each["other"])
            for each in compared(one, other)["differences"]}  # fmt: skip
    assert rows == {"engine.v": ("1", "-"), "options.mode": ("auto", "image")}


def test_a_clip_longer_than_a_piece_is_measured_whole(make_clip, tmp_path, monkeypatch):
    monkeypatch.setattr("posemill.inspection.comparison.measure._CHUNK", 4)
    clip = make_clip(11, clip_id="c")
    points = clip.points.copy()
    points[9, :33, 1] += 5 / 240
    other = dataclasses.replace(clip, points=points)
    found = compared(write_run(tmp_path / "a", clip), write_run(tmp_path / "b", other))
    assert found["splits"][0]["parts"]["pose"]["num_frames"] == 11
    assert [(each["frame_index"], each["parts"]) for each in found["apart"]] == [(9, ("pose",))]


def test_the_function_notes_what_was_left_out(make_clip, tmp_path):
    clip = make_clip(4, clip_id="c", split="train")
    few = dataclasses.replace(
        clip, points=clip.points[1:], scores=clip.scores[1:], sizes_wh=clip.sizes_wh[1:] * 2,
        frame_indices=np.arange(1, 4),
    )  # fmt: skip
    more = [make_clip(2, clip_id=f"m{number}", split="train") for number in range(4)]
    one, other = write_run(tmp_path / "a", clip, *more), write_run(tmp_path / "b", few)
    found = posemill.compare(one, str(other), progress=False)
    assert found["notes"] == [
        f"4 clips in {one} only, not compared: train/m0, train/m1, train/m2 …",
        f"1 frame of clips in both in {one} only, not compared",
        f"3 frames are of another size in the two; distances are in pixels of {one}",
    ]
    assert "page" not in found
    with pytest.raises(PosemillError, match="unknown skeleton"):
        posemill.compare(one, other, skeleton="no-such")
