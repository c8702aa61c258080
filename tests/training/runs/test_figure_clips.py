"""Film strips, and where a prediction looks, of a model that looks at one corner of one frame."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest
import torch
from small_sets import BareClips
from torch import nn

from posemill.training.data.batches import Draw
from posemill.training.loop.passes import Evaluation
from posemill.training.models.base import ModelShape
from posemill.training.models.video import VideoModel
from posemill.training.runs import figure_samples
from posemill.training.runs.figure_samples import chances_lost, draw_looks, draw_samples
from posemill.training.tasks.task import Classify, Ctc, Row
from posemill.training.tasks.workload import Workload
from posemill.training.video.index import key_of
from posemill.training.video.pixel_clips import PixelClips
from posemill.training.video.video_clips import VideoClips

SIDE, NUM_FRAMES = 28, 4


class LooksAtACorner(VideoModel):
    """Says class 1 the more, the brighter the upper left corner of the third frame is."""

    def __init__(self) -> None:
        super().__init__(ModelShape(num_classes=2))
        self.scale = nn.Parameter(torch.ones(()))

    def forward_frames(self, frames: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
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


SAID = Evaluation({}, [Row(index, 1, min(index, 1), 0.9) for index in range(3)])


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


def test_clips_are_drawn_as_strips_with_what_was_said(split, workload):
    figure: Any = draw_samples(workload, split, SAID, "dev")
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert sorted(titles) == ["✓ b/three: b 90%", "✓ b/two: b 90%", "✗ a/one: b 90%, true a"]
    (image,) = figure.axes[0].images
    assert image.get_array().shape == (SIDE, 8 * (SIDE + 2), 3), "eight frames and their edges"


def test_where_predictions_look_is_drawn_on_the_frame_they_need(split, workload):
    figure: Any = draw_looks(workload, split, SAID, "dev")
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[0] == "✗ b 90%\ntrue a"
    assert titles[4].startswith("frame 3 of 4; covered: -")


def test_what_is_no_video_or_has_no_class_is_not_drawn(split, workload):
    assert draw_samples(workload, BareClips(3), SAID, "dev") is None
    workload.task = Ctc()
    assert draw_looks(workload, split, SAID, "dev") is None
