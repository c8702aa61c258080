from dataclasses import replace

import numpy as np
import pytest
from made_up_people import write_run

from posemill.clips.people import choose_person
from posemill.errors import ConfigError
from posemill.estimators import open_estimator
from posemill.formats import get_format
from posemill.formats.shared.contract import Recipe
from posemill.records import OtherPeople, PoseClip, nobody_else
from posemill.runs.reader import open_run
from posemill.skeletons import WORLD_LAYOUT


def clip_of(num_frames, clip_id="a", *, people=()):
    """Return a clip of hands-42 in metres, with so many people beside the first."""
    rng = np.random.default_rng(num_frames)
    points = rng.random((num_frames, 42, 3), np.float32)
    world = rng.standard_normal((num_frames, 75, 3), np.float32)
    world[:, :33] = np.nan
    others = None
    if people:
        total = sum(people)
        others = OtherPeople(
            np.array(people, np.int64),
            rng.random((total, 42, 3), np.float32),
            rng.random((total, 42), np.float32),
            rng.random((total, 75, 3), np.float32),
        )
    sizes = np.full((num_frames, 2), 100, np.int32)
    scores = np.ones((num_frames, 42), np.float32)
    return PoseClip(points, scores, sizes, "hands-42", clip_id=clip_id, others=others, world=world)


def test_metres_come_back_from_a_run_beside_clips_without_any(tmp_path):
    clips = [
        clip_of(2, "a", people=(0, 2)),
        replace(clip_of(3, "b"), world=None),
        replace(clip_of(1, "c"), others=nobody_else(1, 42)),
    ]
    run = open_run(write_run(tmp_path / "run", *clips))
    read = {clip.clip_id: clip for clip in run}
    for clip in (clips[0], clips[2]):
        np.testing.assert_array_equal(read[clip.clip_id].world, clip.world)
    np.testing.assert_array_equal(read["a"].others.world, clips[0].others.world)
    assert run["b"].world is None


def test_a_chosen_person_keeps_their_metres():
    clip = clip_of(2, people=(1, 0))
    taken = choose_person(clip, 2).world[0]
    largest_first = np.array_equal(choose_person(clip, 1).world[0], clip.world[0], equal_nan=True)
    expected = clip.others.world[0] if largest_first else clip.world[0]
    np.testing.assert_array_equal(taken, expected)


@pytest.mark.parametrize(("name", "people"), [("npz", ()), ("csv", ()), ("parquet", (1, 0))])
def test_metres_come_back_from_a_file_of_everybody_where_it_holds_several(name, people, tmp_path):
    form = get_format(name)
    clips = [clip_of(2, "a", people=people), clip_of(2, "b", people=people)]
    path = tmp_path / f"clips{form.suffix}"
    summary = form.write(clips, path, recipe=Recipe())
    assert not [loss for loss in summary.losses if "metres" in loss]
    for clip, read in zip(clips, form.read(path), strict=True):
        np.testing.assert_array_equal(read.world, clip.world)
        np.testing.assert_array_equal(read.points, clip.points)
        if clip.others is not None:
            np.testing.assert_array_equal(read.others.world, clip.others.world)
            np.testing.assert_array_equal(read.others.points, clip.others.points)


@pytest.mark.parametrize("name", ["parquet", "hdf5"])
def test_metres_that_a_file_does_not_keep_are_named(name, tmp_path):
    form = get_format(name)
    clips = [replace(clip_of(2, "a"), world=None), clip_of(3, "b")]
    path = tmp_path / f"clips{form.suffix}"
    summary = form.write(clips, path, recipe=Recipe())
    assert [loss for loss in summary.losses if "metres" in loss]
    assert [clip.world for clip in form.read(path)] == [None, None]


def test_body_and_hands_lie_around_hips_and_wrists(photo, model_files):
    plain = open_estimator("holistic").estimate([photo])
    assert plain.world is None
    found = open_estimator("holistic", world=True).estimate([photo])
    np.testing.assert_array_equal(found.points, plain.points)
    hips = [WORLD_LAYOUT.point_names.index(f"{side}_hip") for side in ("left", "right")]
    assert np.abs(found.world[0, hips].mean(0)).max() < 0.02
    for hand, points in ((found.world[0, 33:54], found.points[0, 501:522]),
                         (found.world[0, 54:], found.points[0, 522:])):  # fmt: skip
        np.testing.assert_array_equal(np.isnan(hand), np.isnan(points))
        if not np.isnan(hand).any():
            assert (hand[0] == 0).all()
            assert 0.05 < np.linalg.norm(hand, axis=1).max() < 0.3


def test_hands_of_a_picture_are_around_their_wrists(photo, model_files):
    engine = open_estimator("hands", world=True, min_detection_confidence=0.1,
                            min_tracking_confidence=0.0)  # fmt: skip
    found = engine.estimate([photo])
    is_found = ~np.isnan(found.points[0, :, 0])
    assert is_found.any()
    np.testing.assert_array_equal(~np.isnan(found.world[0, 33:, 0]), is_found)
    assert np.isnan(found.world[0, :33]).all()
    wrists = found.world[0, [33, 54]]
    assert (wrists[~np.isnan(wrists)] == 0).all()


def test_other_engines_refuse_metres():
    with pytest.raises(ConfigError):
        open_estimator("openpose", world=True)
