from collections.abc import Callable
from contextlib import closing

import numpy as np
import pytest

from posemill.estimators.holistic import HolisticEstimator
from posemill.estimators.landmarks.rects import Rect
from posemill.estimators.movenet import regions
from posemill.records import Keypoints, OtherPeople

WIDTH, HEIGHT = 200, 100


def person(**places):
    """17 points, normalised; `p5=(80, 20)` puts point 5 at a pixel."""
    points = np.full((17, 3), np.nan, np.float32)
    for name, (x, y) in places.items():
        points[int(name[1:])] = x / WIDTH, y / HEIGHT, 0
    return points


class People:
    """In place of MoveNet: finds the same people in every frame, one row of people a frame."""

    def __init__(self, rows):
        self.rows = rows

    def __call__(self, **options):
        self.options = options
        return self

    def estimate(self, frames):
        nobody = np.full((17, 3), np.nan, np.float32)
        first = np.stack([row[0] if row else nobody for row in self.rows])
        others = [each for row in self.rows for each in row[1:]]
        counts = np.array([max(0, len(row) - 1) for row in self.rows], np.int64)
        points = np.stack(others) if others else np.zeros((0, 17, 3), np.float32)
        sizes = np.array([frame.shape[1::-1] for frame in frames], np.int32)
        return Keypoints(
            first,
            np.ones(first.shape[:2], np.float32),
            sizes,
            OtherPeople(counts, points, np.ones(points.shape[:2], np.float32)),
        )

    def identity(self):
        return {"weights": "abc"}


Find = Callable[..., list[list[Rect]]]


@pytest.fixture
def find(monkeypatch):
    """Returns a function: rows of people that MoveNet finds in a frame each; their regions."""

    def regions_of(*rows):
        monkeypatch.setattr(regions, "MoveNetEstimator", People(list(rows)))
        frame = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
        found = regions.MoveNetRegions(device="cpu", threads=1).find([frame] * len(rows))
        return [[region.rect for region in row] for row in found]

    return regions_of


UPRIGHT = {"p5": (90, 40), "p6": (110, 40), "p11": (95, 60), "p12": (105, 60), "p15": (100, 100)}
HIPS = {"p11": (95, 60), "p12": (105, 60)}


@pytest.mark.parametrize(
    ("points", "center", "reach", "rotation"),
    [
        # The ankle is 40 pixels away from the hips.
        (UPRIGHT, (100, 60), 40, 0),
        # It lies along the trunk.
        ({"p5": (60, 45), "p6": (60, 55), "p11": (100, 45), "p12": (100, 55)},
         (100, 50), 40.3, np.pi / 2),
        # Hips that are not seen are guessed: from the middle of the shoulders twice as far down as
        # the head is up.
        ({"p0": (100, 20), "p5": (90, 40), "p6": (110, 40)}, (100, 80), 60, 0),
        # The head stands for shoulders; hips alone are upright.
        ({"p0": (100, 20), **HIPS}, (100, 60), 40, 0),
        ({"p15": (100, 90), **HIPS}, (100, 60), 30, 0),
    ],
)  # fmt: skip
def test_the_region_is_a_square_around_the_hips_that_holds_the_farthest_point(
    find, points, center, reach, rotation
):
    ((region,),) = find([person(**points)])
    assert (region.center_x * WIDTH, region.center_y * HEIGHT) == pytest.approx(center)
    size = region.width * WIDTH, region.height * HEIGHT
    assert size == pytest.approx([2 * 1.25 * reach] * 2, rel=0.01)
    assert abs(region.rotation) == pytest.approx(rotation, abs=1e-5)


def test_somebody_without_trunk_has_no_region_and_each_frame_its_own_people(find):
    head = person(p0=(100, 20))
    hip = person(p11=(95, 60))  # one point has no reach
    shoulders = person(p5=(90, 40), p6=(110, 40))
    shifted = person(**{name: (x + 50, y) for name, (x, y) in UPRIGHT.items()})
    rows = [[person(**UPRIGHT), head, shifted], [], [hip, shoulders], [shifted]]
    found = find(*rows)
    assert [len(each) for each in found] == [2, 0, 0, 1]
    assert [region.center_x for region in found[0]] == pytest.approx([0.5, 0.75])
    assert found[3][0].center_x == pytest.approx(0.75)


def test_no_frames_ask_nobody_and_the_network_is_part_of_the_identity(monkeypatch):
    people = People([])
    monkeypatch.setattr(regions, "MoveNetEstimator", people)
    finder = regions.MoveNetRegions(device="cpu", threads=2)
    assert people.options == {"device": "cpu", "threads": 2, "network": "lightning"}
    assert list(finder.find([])) == []
    assert finder.identity() == {"movenet weights": "abc"}


def test_two_people_are_found_by_movenet_and_have_all_landmarks(photo, need_model, model_files):
    for name in ("nanodet", "nanodet-weights", "movenet-lightning", "movenet-lightning-weights"):
        need_model(name)
    with closing(HolisticEstimator(people=3, people_from="movenet", parts="pose")) as engine:
        found = engine.estimate([np.ascontiguousarray(np.concatenate([photo, photo], axis=1))])
        assert found.others.counts.tolist() == [1]
        noses = sorted([found.points[0, 0, 0], found.others.points[0, 0, 0]])
        # The two halves are the same picture.
        assert noses[1] - noses[0] == pytest.approx(0.5, abs=0.01)
        assert "movenet" in " ".join(engine.identity())
