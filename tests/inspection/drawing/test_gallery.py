"""Samples drawn with a seed, pictures on originals or on blank canvases, movies of clips."""

import cv2
import numpy as np
import pytest
from made_up_people import write_run

from posemill.clips.inputs import ClipInput, Outline
from posemill.errors import PosemillError
from posemill.inspection.drawing.gallery import choose_frames, draw_gallery
from posemill.inspection.drawing.originals import Originals
from tests.inspection.conftest import facts_of, write_film

GREEN = (20, 200, 40)


def outline(clip_id, num_frames, split="train"):
    sizes = {(1, 1): num_frames}
    return Outline(split, clip_id, "holistic-543", num_frames, (num_frames,) * 4, sizes)


def write_frames(folder, num_frames):
    """Write green pictures; return their paths."""
    folder.mkdir(parents=True)
    paths = [folder / f"{number:04d}.png" for number in range(num_frames)]
    for path in paths:
        cv2.imwrite(str(path), np.full((48, 64, 3), GREEN[::-1], np.uint8))
    return tuple(map(str, paths))


def make_run(folder, clips, **source):
    return ClipInput(write_run(folder, *clips, source=source))


def is_green(path):
    """Whether the corner of a picture is the originals' green."""
    picture = cv2.imread(str(path))
    return bool((picture[5, 5, ::-1] == GREEN).all())


def test_a_seed_draws_the_same_frames_and_every_clip_once_before_one_twice():
    outlines = [outline(f"clip{number}", 30 + number) for number in range(40)]
    first = choose_frames(outlines, 10, seed=1)
    assert choose_frames(outlines[::-1], 10, seed=1) == first
    assert choose_frames(outlines, 10, seed=2) != first
    assert len(first) == 10
    chosen = choose_frames([outline("a", 100), outline("b", 2)], 7, seed=0)
    assert {name[1]: len(set(rows)) for name, rows in chosen.items()} == {"a": 5, "b": 2}
    assert choose_frames([outline("a", 3)], 50, seed=0) == {("train", "a"): [0, 1, 2]}


def test_frames_are_drawn_on_their_originals_with_a_sheet(make_clip, tmp_path):
    paths = write_frames(tmp_path / "data" / "a", 10)
    clip = make_clip(10, clip_id="a", split="train", image_paths=paths)
    material = make_run(tmp_path / "run", [clip])
    originals = Originals(facts_of(tmp_path / "data"))
    written = list(draw_gallery(material, tmp_path / "out", originals=originals, num_samples=3))
    assert [path.name for path in written[-1:]] == ["train_contact_sheet.png"]
    assert len(written) == 4
    assert all(is_green(path) for path in written[:3])
    assert (originals.num_read, originals.num_gone) == (3, 0)


def test_originals_that_are_gone_are_counted_and_drawn_blank(make_clip, tmp_path):
    clip = make_clip(4, clip_id="a", image_paths=tuple(f"/nowhere/{i}.png" for i in range(4)))
    material, originals = make_run(tmp_path / "run", [clip]), Originals()
    written = list(draw_gallery(material, tmp_path / "out", originals=originals, num_samples=2))
    assert not is_green(written[0])
    assert originals.num_gone == 2
    assert "/nowhere/" in originals.first_reason


def test_frames_of_videos_are_the_right_ones(make_clip, tmp_path):
    levels = [20 + 20 * number for number in range(10)]
    write_film(tmp_path / "data" / "a.mp4", levels)
    clip = make_clip(5, clip_id="a", frame_indices=np.array([1, 3, 4, 8, 9]))
    frames = dict(Originals(facts_of(tmp_path / "data", "videos")).frames(clip, [0, 2, 4]))
    for row, number in ((0, 1), (2, 4), (4, 9)):
        assert frames[row].mean() == pytest.approx(levels[number], abs=4)


def test_a_video_of_a_merged_run_that_is_gone_or_too_short_gives_blank_frames(make_clip, tmp_path):
    for name in ("one", "two"):
        write_film(tmp_path / name / f"{name}.mp4", [0] * 3)
    places = "/nowhere", tmp_path / "one", tmp_path / "two"
    inputs = [{"manifest": facts_of(place)} for place in places]
    originals = Originals({"source": {"inputs": inputs}})
    for name in ("one", "two"):
        found = dict(originals.frames(make_clip(5, clip_id=name), range(5)))
        assert [frame is None for frame in found.values()] == [False, False, False, True, True]
    originals = Originals(facts_of(tmp_path / "one"))
    gone = dict(originals.frames(make_clip(2, clip_id="b"), range(2)))
    assert list(gone.values()) == [None, None]
    assert "no clip 'b' in" in originals.first_reason


@pytest.mark.parametrize("kind", ["mp4", "gif"])
def test_whole_clips_become_movies_with_a_sheet(make_clip, tmp_path, kind):
    fps = {"mp4": 1000.5, "gif": 10.0}[kind]  # some files say thousands, and are shown at 25
    clips = [make_clip(6, clip_id=name, split="dev", fps=fps) for name in ("a", "b")]
    material = make_run(tmp_path / "run", clips)
    options = {"originals": Originals(), "clip_ids": ["b"], "video": kind}
    written = list(draw_gallery(material, tmp_path / "out", **options))
    folder = tmp_path / "out" / "dev"
    assert written == [folder / f"b.{kind}", folder / "b_contact_sheet.png"]
    assert all(path.stat().st_size > 1000 for path in written)


def test_hostile_clip_names_stay_below_the_folder(make_clip, tmp_path):
    names = ["../../escaped", "/absolute", "a/../../../b"]
    clips = [make_clip(2, clip_id=name, split="../up") for name in names]
    material = make_run(tmp_path / "run", clips)
    out = tmp_path / "deep" / "er" / "out"
    before = {path for path in tmp_path.rglob("*") if "run" not in path.parts}
    written = list(draw_gallery(material, out, originals=Originals()))
    assert len(written) == 7
    made = set(tmp_path.rglob("*.png")) - before
    assert made == set(written)
    assert all(path.is_relative_to(out) for path in made)


def test_wrong_wishes_are_named(make_clip, tmp_path):
    material = make_run(tmp_path / "run", [make_clip(2, clip_id="a")])
    with pytest.raises(PosemillError, match=r"has no clip 'z'; posemill view --detailed lists"):
        list(draw_gallery(material, tmp_path, originals=Originals(), clip_ids=["z"]))
