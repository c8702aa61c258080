"""Sample predictions: which are chosen, what is said of them, what is drawn, where models look."""

import cv2
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgba
from small_sets import BareClips
from torch import nn

from posemill.skeletons import get_skeleton
from posemill.skeletons.palette import BAD, COLOURS, GOOD, bone_keys, hex_of, point_keys
from posemill.training.data.batches import Draw
from posemill.training.data.clips import Picture
from posemill.training.loop.passes import Evaluation
from posemill.training.models.base import ModelShape
from posemill.training.models.video import VideoModel
from posemill.training.runs import figure_samples
from posemill.training.runs.figure_samples import (
    chances_lost,
    draw_looks,
    draw_samples,
    draw_skeleton,
)
from posemill.training.runs.figures import new_figure
from posemill.training.tasks.task import Classify, Ctc, Row
from posemill.training.tasks.workload import Workload
from posemill.training.video.index import key_of
from posemill.training.video.pixel_clips import PixelClips
from posemill.training.video.video_clips import VideoClips

NAMES = ("yes", "no")


def show(index):
    points = np.full((2, 3, 2), index, np.float32)
    return Picture(f"clip{index}", points=(points, np.ones((2, 3), bool)))


def drawn(task, rows, **changes):
    split = BareClips(len(rows), show)
    options = {"class_names": NAMES} | changes
    workload = Workload(None, split, None, task, {}, **options)
    return draw_samples(workload, split, Evaluation({}, rows), "dev")


def titles(figure):
    return [axes.get_title() for axes in figure.axes if axes.get_title()]


def skeleton_axes(points, mask, name):
    axes = new_figure(2, 2).subplots()
    draw_skeleton(axes, points, mask, name)
    return axes


def test_titles_say_class_and_chance_above_their_own_clips():
    figure = drawn(Classify(), [Row(0, 0, 0, 0.876), Row(1, 0, 1, 0.5)])
    assert sorted(titles(figure)) == ["✓ clip0\nyes 88%", "✗ clip1\nyes 50%, true no"]
    colours = {axes.get_title()[:1]: axes.title.get_color() for axes in figure.axes}
    assert (colours["✓"], colours["✗"]) == (GOOD, BAD)
    assert figure.get_suptitle() == "dev: ✓ right, ✗ wrong"
    figure = drawn(Classify(), [Row(index, 0, 0, 1.0) for index in range(5)])
    assert figure.get_size_inches()[1] == pytest.approx(6.6), "two rows of four"
    for axes in figure.axes[:5]:
        index = int(axes.get_title()[6])
        assert axes.collections[0].get_offsets().tolist() == [[index, index]] * 3
    assert drawn(Classify(), []) is None
    split = BareClips(1)
    workload = Workload(None, split, None, Classify(), {})
    assert draw_samples(workload, split, Evaluation({}, [Row(0, 0, 0)]), "dev") is None


@pytest.mark.parametrize(
    ("num_wrong", "num_right", "wrong_shown", "shown"),
    [(20, 20, 4, 8), (20, 2, 6, 8), (3, 20, 3, 8), (1, 1, 1, 2)],
)
def test_half_of_the_samples_are_wrong_ones_where_there_are(
    num_wrong, num_right, wrong_shown, shown
):
    count = num_wrong + num_right
    rows = [Row(index, int(index < num_wrong), 0, 1.0) for index in range(count)]
    said = titles(drawn(Classify(), rows))
    assert len(said) == len(set(said)) == shown
    assert ["true" in text for text in said] == [True] * wrong_shown + [False] * (
        shown - wrong_shown
    )
    assert said == titles(drawn(Classify(), rows)), "the same each time"


@pytest.mark.parametrize("head", ["", "conv"])
def test_sentences_are_read_from_the_chosen_head_and_have_room(head):
    said = head or "sequence"
    rows = [Row(0, {said: [0, 1], "other": []}, [0, 1]), Row(1, {said: []}, [1])]
    figure = drawn(Ctc(head=head), rows)
    assert sorted(titles(figure)) == [
        "✓ clip0\nsaid yes no\ntrue yes no", "✗ clip1\nsaid nothing\ntrue no",
    ]  # fmt: skip
    assert {axes.title.get_color() for axes in figure.axes} == {GOOD, BAD}
    assert len(figure.axes) == 2


def test_points_without_a_skeleton_have_their_paths_behind_them():
    points = np.random.default_rng(0).random((4, 7, 3)).astype(np.float32)
    mask = np.ones((4, 7), bool)
    mask[0, 2] = False
    axes = skeleton_axes(points, mask, None)
    assert len(axes.lines) == 7
    for index, line in enumerate(axes.lines):
        expected = np.where(mask[:, index, None], points[:, index, :2], np.nan)
        np.testing.assert_array_equal(line.get_xydata(), expected)
    (dots,) = axes.collections
    np.testing.assert_array_equal(dots.get_offsets(), points[2, :, :2])
    assert axes.yaxis_inverted(), "y goes down"


@pytest.mark.parametrize("name", ["holistic-143", "openpose-18"])
def test_a_skeleton_is_drawn_with_its_bones_in_the_colours_of_its_parts(name):
    skeleton = get_skeleton(name)
    of_point = [hex_of(COLOURS[key]) for key in point_keys(name)]
    of_bone = [hex_of(COLOURS[key]) for key in bone_keys(name)]
    points = np.random.default_rng(0).random((4, skeleton.num_points, 2)).astype(np.float32)
    mask = np.ones(points.shape[:2], bool)
    mask[0] = False
    axes = skeleton_axes(points, mask, name)
    hands = [part for part in skeleton.parts if part.name.endswith("hand")]
    for line, part in zip(axes.lines, hands, strict=False):
        path = np.array(points[:, part.start : part.stop].mean(1))
        path[0] = np.nan
        np.testing.assert_allclose(line.get_xydata(), path, rtol=1e-6)
        assert (line.get_alpha(), line.get_linewidth()) == (0.35, 4)
        assert line.get_color() == hex_of(COLOURS[part.name])
    bones = axes.lines[len(hands) :]
    for line, (one, other), colour in zip(bones, skeleton.bones, of_bone, strict=True):
        np.testing.assert_array_equal(line.get_xydata(), points[2, [one, other]])
        assert (line.get_color(), line.get_linewidth()) == (colour, 1.2)
    (dots,) = axes.collections
    assert dots.get_sizes().tolist() == [3]
    assert dots.get_facecolors().tolist() == [list(to_rgba(colour)) for colour in of_point]


SIDE, NUM_FRAMES = 28, 4


class LooksAtACorner(VideoModel):
    """Says class 1 the more, the brighter the upper left corner of the third frame is."""

    def __init__(self):
        super().__init__(ModelShape(num_classes=2))
        self.scale = nn.Parameter(torch.ones(()))

    def forward_frames(self, frames, lengths):
        bright = frames[:, 2, :, :4, :4].mean((1, 2, 3)) * self.scale
        return torch.stack([torch.zeros_like(bright), bright], 1)


@pytest.fixture
def split(tmp_path):
    """Three clips of white frames, of classes a, b and b."""
    for name in ("a/one", "b/two", "b/three"):
        (tmp_path / name).mkdir(parents=True)
        for number in range(NUM_FRAMES):
            frame = np.full((SIDE, SIDE, 3), 255, np.uint8)
            cv2.imwrite(str(tmp_path / name / f"{number}.png"), frame)
    reader = VideoClips(tmp_path, sampling="uniform:4", size=SIDE)
    clips = PixelClips(
        all_places=tuple(reader.clips),
        rows=np.arange(3),
        sampling=reader.sampling,
        targets=tuple(reader.targets),
        keys=tuple(key_of(place) for place in reader.clips),
        class_names=("a", "b"),
    )
    return clips.opened(reader)


@pytest.fixture
def workload(split):
    return Workload(LooksAtACorner(), split, split, Classify(), {}, class_names=("a", "b"))


PREDICTED = Evaluation({}, [Row(index, 1, min(index, 1), 0.9) for index in range(3)])


def test_covering_what_a_model_looks_at_costs_its_chance(split, workload):
    clip = split[Draw(1)]
    frames = clip.inputs[0][0].numpy()
    of_frames = chances_lost(workload, clip, 1, figure_samples._covered_frames(frames))
    assert of_frames.argmax() == 2
    assert of_frames[[0, 1, 3]] == pytest.approx([0, 0, 0], abs=1e-6)
    places = chances_lost(workload, clip, 1, figure_samples._covered_places(frames)).reshape(7, 7)
    assert (places > 0.01).nonzero()[0].tolist() == [0, 0, 1, 1]
    assert (places > 0.01).nonzero()[1].tolist() == [0, 1, 0, 1]
    assert places[0, 0] == pytest.approx(of_frames[2], abs=1e-3), "grey is nothing to the model"


def test_clips_are_drawn_as_strips_and_where_predictions_look_on_the_frame_they_need(
    split, workload
):
    figure = draw_samples(workload, split, PREDICTED, "dev")
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert sorted(titles) == ["✓ b/three: b 90%", "✓ b/two: b 90%", "✗ a/one: b 90%, true a"]
    (image,) = figure.axes[0].images
    assert image.get_array().shape == (SIDE, 8 * (SIDE + 2), 3), "eight frames and their edges"
    figure = draw_looks(workload, split, PREDICTED, "dev")
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[0] == "✗ b 90%\ntrue a"
    assert titles[4].startswith("frame 3 of 4; covered: -")
    assert draw_samples(workload, BareClips(3), PREDICTED, "dev") is None
    workload.task = Ctc()
    assert draw_looks(workload, split, PREDICTED, "dev") is None, "which has no class"
