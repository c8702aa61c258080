"""Several people in one video: Holistic with `people=all` against each person's clip alone.

    python -m benchmarks.keypoints.people_in_video [--frames 73] [--people-from detector] [--json]
    python -m benchmarks.keypoints.people_in_video --pairs 12 [--json]
    python -m benchmarks.keypoints.people_in_video --state-frames 10000 [--json]

Clips of the shared media are put side by side in one video, two and three of them, and two that
walk through each other, scaled to 0.6, also with a third who stands between. Prints for each video:
in how many frames the parts found agree with those of the clip alone (in all frames, and in those
in which nobody's picture lies over the person), the median distance of the landmarks in pixels of
the clip, and how often an id changes; and how well the clips alone agree with themselves after a
little noise. Then what is rare: 40 people in a picture, people who enter
and leave, a person over the edge, two in one place, an empty clip; the CPU time of a person in a
group of three over that of one alone; and the growth of memory over many frames. With
`--state-frames` that growth only, with made-up networks, which cost nothing. With `--pairs` only
the agreement of so many pairs of other clips side by side, 24 frames each.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from unittest import mock

import cv2
import numpy as np
import psutil

from benchmarks.shared.measuring import Measured, make_parser, not_here, report
from posemill.decoders import open_video
from posemill.decoders.pictures import read_picture
from posemill.estimators.holistic import HolisticEstimator
from posemill.estimators.landmarks import crop_network
from posemill.estimators.people import with_ids
from posemill.records import FloatArray, Frame, Keypoints
from posemill.skeletons import get_skeleton
from posemill.tracker import MAX_MISSING, Tracker, pose_similarity

_MEDIA = Path(__file__).parents[3] / "shared" / "media"
_CLIPS = ("videos/signing_540x720.mp4", "clips/asl_house", "videos/autsl_sample_color.mp4")
_OTHER_CLIPS = _MEDIA.parent / "datasets" / "sign_videos6"
_HEIGHT = 480
_GREY = 96
_SCALE = 0.6
Place = Callable[[int], tuple[int, int]]  # where a clip lies in frame t: left and top


def read_clip(path: Path, num_frames: int) -> list[Frame]:
    """Return the first frames of a clip, all of one height; it is repeated where it is shorter."""
    if path.is_dir():
        frames = [read_picture(file) for file in sorted(path.iterdir())[:num_frames]]
    else:
        with open_video(path) as video:
            frames = [frame.copy() for _, frame in zip(range(num_frames), video, strict=False)]
    width = round(frames[0].shape[1] * _HEIGHT / frames[0].shape[0])
    scaled = [np.asarray(cv2.resize(frame, (width, _HEIGHT)), np.uint8) for frame in frames]
    # There and back: no jump where it is repeated.
    there_and_back = scaled + scaled[-2:0:-1]
    return [there_and_back[t % len(there_and_back)] for t in range(num_frames)]


def compose(
    clips: list[list[Frame]], places: list[Place], size_wh: tuple[int, int]
) -> Iterator[Frame]:
    """Yield frames with the clips at their places; later clips lie over earlier ones."""
    for t in range(len(clips[0])):
        canvas = np.full((size_wh[1], size_wh[0], 3), _GREY, np.uint8)
        for clip, place in zip(clips, places, strict=True):
            left, top = place(t)
            x, y = max(left, 0), max(top, 0)
            right, bottom = max(size_wh[0] - left, 0), max(size_wh[1] - top, 0)
            part = clip[t][y - top : bottom, x - left : right]
            canvas[y : y + part.shape[0], x : x + part.shape[1]] = part
        yield canvas


def follow(engine: HolisticEstimator, frames: Iterator[Frame]) -> Iterator[Keypoints]:
    """Yield the people of each frame of a video, with their ids."""
    state, tracker = engine.new_state(), Tracker()
    for frame in frames:
        found = engine.estimate([frame], [state])
        if found.others is not None:
            found = with_ids(found, [tracker], "holistic-543")
        yield found


def people_of(found: Keypoints) -> tuple[FloatArray, list[int]]:
    """Return the points `(people, 543, 3)` of one frame in pixels (z as it is), and the ids."""
    assert found.others is not None
    assert found.others.ids is not None
    points = np.concatenate([found.points, found.others.points])
    ids = np.concatenate(found.others.ids)
    points[..., :2] *= found.sizes_wh[0]
    return points[ids > 0], ids[ids > 0].tolist()


def pair_up(expected: FloatArray, found: FloatArray) -> dict[int, int]:
    """Return who is who: the most similar pairs first, nobody twice."""
    pairs: dict[int, int] = {}
    if not len(found):
        return pairs
    body = np.nan_to_num(expected[:, :33, :2], nan=-1e6)
    similarity = pose_similarity(body, found[:, :33, :2])
    while (best := similarity.max()) > 0.3:
        one, other = np.argwhere(similarity == best)[0].tolist()
        pairs[one] = other
        similarity[one], similarity[:, other] = -1, -1
    return pairs


def compare(
    engine: HolisticEstimator, clips: list[list[Frame]], places: list[Place],
    size_wh: tuple[int, int],
) -> dict[str, Measured]:  # fmt: skip
    """Return agreement, distance and changes of ids of the clips in one video."""
    alone = HolisticEstimator()
    expected = [list(follow(alone, iter(clip))) for clip in clips]
    parts = get_skeleton("holistic-543").parts
    agreed: list[bool] = []
    uncovered: list[bool] = []  # as `agreed`, of people whom no later clip covers
    distances: list[float] = []
    ids: list[list[int]] = [[] for _ in clips]
    for t, found in enumerate(follow(engine, compose(clips, places, size_wh))):
        points, numbers = people_of(found)
        alone_points = np.concatenate([keypoints[t].points for keypoints in expected])
        for clip, place in enumerate(places):
            alone_points[clip, :, :2] *= expected[clip][t].sizes_wh[0]
            alone_points[clip, :, :2] += place(t)
        pairs = pair_up(alone_points, points)
        for clip, own in enumerate(alone_points):
            same = [bool(np.isnan(own[0, 0]))] * len(parts)
            if clip in pairs:
                person = pairs[clip]
                ids[clip].append(numbers[person])
                gaps = np.linalg.norm(own[:, :2] - points[person, :, :2], axis=1)
                distances += gaps[~np.isnan(gaps)].tolist()
                missing = np.isnan(own[:, 0]), np.isnan(points[person, :, 0])
                alone_lacks, found_lacks = (
                    [bool(values[part.start : part.stop].all()) for part in parts]
                    for values in missing
                )
                same = [one == other for one, other in zip(alone_lacks, found_lacks, strict=True)]
            agreed += same
            if not is_covered(own, clip, [place(t)[0] for place in places], clips):
                uncovered += same
    changes = sum(one != other for row in ids for one, other in pairwise(row))
    everybody = {number for row in ids for number in row}
    return {
        "agree": Measured(float(np.mean(agreed))),
        "agree_uncovered": Measured(
            float(np.mean(uncovered)), note=f"{len(uncovered)} of {len(agreed)} parts"
        ),
        "median": Measured(float(np.median(distances))),
        "switches": Measured(changes, note=f"{len(everybody)} ids for {len(clips)} people"),
    }


def is_covered(body: FloatArray, clip: int, lefts: list[int], clips: list[list[Frame]]) -> bool:
    """Return whether a later clip lies over a person, whose points are in pixels of the video."""
    own_left, own_right = lefts[clip], lefts[clip] + clips[clip][0].shape[1]
    x = body[:33, 0].clip(own_left, own_right)
    return any(
        left < x.max() and x.min() < left + pictures[0].shape[1]
        for left, pictures in list(zip(lefts, clips, strict=True))[clip + 1 :]
    )


def agreement_with_noise(clips: list[list[Frame]]) -> Measured:
    """Return in how many parts clips alone agree with themselves after a little noise.

    One value in a hundred changes by a grey level. Hands near the threshold come and go by that,
    so no video of several people can be expected to agree with its clips much better.
    """
    rng, engine, agreed = np.random.default_rng(0), HolisticEstimator(), []
    parts = get_skeleton("holistic-543").parts
    for clip in clips:
        steps = (rng.choice([-1, 0, 1], frame.shape, p=[0.005, 0.99, 0.005]) for frame in clip)
        noisy = [
            np.clip(frame + step, 0, 255).astype(np.uint8)
            for frame, step in zip(clip, steps, strict=True)
        ]
        for one, other in zip(follow(engine, iter(clip)), follow(engine, iter(noisy)), strict=True):
            lacks = np.isnan(one.points[0, :, 0]), np.isnan(other.points[0, :, 0])
            agreed += [
                bool(lacks[0][part.start : part.stop].all())
                == bool(lacks[1][part.start : part.stop].all())
                for part in parts
            ]
    return Measured(float(np.mean(agreed)), note="each alone, against itself with noise")


def side_by_side(clips: list[list[Frame]]) -> tuple[list[Place], tuple[int, int]]:
    """Return the places of clips beside each other, and the size of the video."""
    lefts = np.cumsum([0, *(clip[0].shape[1] for clip in clips)]).tolist()
    places: list[Place] = [partial(_stay, left) for left in lefts[:-1]]
    return places, (lefts[-1], clips[0][0].shape[0])


def _stay(left: int, t: int) -> tuple[int, int]:
    return left, 0


def crossing(clips: list[list[Frame]]) -> tuple[list[Place], tuple[int, int]]:
    """Return the places of two clips that change sides, the second in front of the first.

    A third one stands in the middle, in front of both.
    """
    widths = [clip[0].shape[1] for clip in clips]
    last, whole = len(clips[0]) - 1, round(2.4 * max(widths))

    def place(t: int, number: int) -> tuple[int, int]:
        share = (t / last, 1 - t / last, 0.5)[number]
        return round(share * (whole - widths[number])), 0

    places: list[Place] = [partial(place, number=number) for number in range(len(clips))]
    return places, (whole, clips[0][0].shape[0])


def shrink(clip: list[Frame], scale: float = _SCALE) -> list[Frame]:
    """Return a clip made smaller."""
    return [
        np.asarray(
            cv2.resize(frame, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA), np.uint8
        )
        for frame in clip
    ]


def rare_cases(engine: HolisticEstimator, clip: list[Frame]) -> dict[str, Measured]:
    """Return what is found where people are many, come and go, or are not there."""
    small = shrink(clip, 0.35)
    height, width = small[0].shape[:2]
    crowd = np.concatenate([np.concatenate([small[0]] * 10, 1)] * 4, 0)
    found = engine.estimate([crowd])
    assert found.others is not None
    results = {"crowd_of_40": Measured(1 + int(found.others.counts[0]))}
    # In, over both edges, and out; and nobody for long enough that nobody may be left.
    size_wh = (3 * width, height)
    num_frames = len(clip)
    walks: Place = lambda t: (round((t / num_frames * 1.6 - 0.3) * 3 * width) - width // 2, 0)  # noqa: E731
    walking = follow(engine, compose([small], [walks], size_wh))
    counts = [len(people_of(found)[1]) for found in walking]
    results["walks_through"] = Measured(max(counts), note="most people in a frame")
    empty = np.full((height, 3 * width, 3), _GREY, np.uint8)
    both: list[Place] = [lambda _: (0, 0), lambda _: (width // 3, 0)]
    frames = [*compose([small, small], both, size_wh), *[empty] * (MAX_MISSING + 5)]
    state = engine.new_state()
    counts = []
    for frame in frames:
        found = engine.estimate([frame], [state])
        counts.append(0 if np.isnan(found.points[0, 0, 0]) else 1 + int(found.others.counts[0]))  # type: ignore[union-attr]
    ghosts = [count for count in counts[len(small) :] if count]
    results["hug"] = Measured(max(counts), note="most people in a frame, of two who overlap")
    results["ghost_frames"] = Measured(len(ghosts), note=f"{len(state.people)} remembered")
    nobody = [engine.estimate([empty], [state]) for _ in range(3)]
    results["empty"] = Measured(sum(int((~np.isnan(one.points)).sum()) for one in nobody))
    return results


def time_of_person(people_from: str, clip: list[Frame]) -> Measured:
    """Return the CPU time of a person in a group of three over that of one alone."""
    engine = HolisticEstimator(people="all", people_from=people_from)
    small = shrink(clip)
    places, size_wh = side_by_side([small] * 3)
    taken = []
    for number in (1, 3):
        frames = list(compose([small] * number, places[:number], size_wh))
        state = engine.new_state()
        engine.estimate([frames[0]], [state])
        begun, people = time.process_time(), 0
        for frame in frames[1:]:
            found = engine.estimate([frame], [state])
            assert found.others is not None
            people += int(found.others.counts[0]) + int(not np.isnan(found.points[0, 0, 0]))
        taken.append((time.process_time() - begun) / max(people, 1))
    return Measured(taken[1] / taken[0], note=f"{taken[0] * 1e3:.1f} ms alone")


def memory_growth(engine: HolisticEstimator, clip: list[Frame], num_frames: int) -> Measured:
    """Return by how many MB a process grows over frames in which people come and go."""
    small = shrink(clip)
    height, width = small[0].shape[:2]
    state, tracker, process = engine.new_state(), Tracker(), psutil.Process()
    begin = 0.0
    for t in range(num_frames):
        canvas = np.full((height, 2 * width, 3), _GREY, np.uint8)
        left = round((math.sin(t / 40) + 1) / 2 * width)
        if t // 60 % 2:
            canvas[:, left : left + width] = small[t % len(small)]
        with_ids(engine.estimate([canvas], [state]), [tracker], "holistic-543")
        if t == num_frames // 5:
            begin = process.memory_info().rss / 2**20
    grown = process.memory_info().rss / 2**20 - begin
    return Measured(grown, note=f"{num_frames} frames, {tracker.next_id - 1} ids")


class MadeUpNetwork:
    """Stands in for the networks of bodies: people come and go by chance, at no cost."""

    runs_batches = False

    def __init__(self, name: str, **_: object) -> None:
        self._is_detector = name == "pose_detection"
        self.size = 224 if self._is_detector else 256
        self._rng = np.random.default_rng(0)
        self._heat = np.full((1, 39, 64, 64), -9, np.float32)
        self._box = np.array([0, 0, 30, 30, 0, 0, 0, -20, 0, 0, 0, -20], np.float32)

    def run(self, pixels: Frame) -> list[FloatArray]:
        """Return a few detections anywhere, or a body that is there most of the time."""
        if self._is_detector:
            boxes = np.tile(self._box, (1, 2254, 1))
            logits = np.full((1, 2254, 1), -9, np.float32)
            logits[0, self._rng.integers(0, 2254, 4)] = 2
            return [boxes, logits]
        points = self._rng.uniform(60, 196, (39, 5)).astype(np.float32)
        points[33:35, :2] = (128, 128), (128, 25)
        score = np.array([[self._rng.random() > 0.05]], np.float32)
        return [points.reshape(1, -1), score, self._heat, np.zeros((1, 117), np.float32)]


def growth_of_states(num_frames: int) -> Measured:
    """Return by how many MB a process grows over frames with made-up networks."""
    with mock.patch.object(crop_network, "open_network", MadeUpNetwork):
        engine = HolisticEstimator(people=6, parts="pose")
    state, tracker, process = engine.new_state(), Tracker(), psutil.Process()
    frame = np.zeros((120, 160, 3), np.uint8)
    people, remembered, begin = 0, 0, 0.0
    for t in range(num_frames):
        found = with_ids(engine.estimate([frame], [state]), [tracker], "holistic-543")
        people += len(people_of(found)[1])
        remembered = max(remembered, len(state.people), len(tracker.tracks))
        if t == num_frames // 5:
            begin = process.memory_info().rss / 2**20
    grown = process.memory_info().rss / 2**20 - begin
    note = f"{num_frames} frames, {people / num_frames:.1f} people in each, {tracker.next_id - 1}"
    return Measured(grown, note=f"{note} ids, at most {remembered} remembered")


def agreement_of_pairs(engine: HolisticEstimator, number: int) -> dict[str, Measured]:
    """Return how well pairs of clips, drawn at random, agree with each clip alone."""
    paths = sorted(_OTHER_CLIPS.rglob("*.mp4"))
    drawn = np.random.default_rng(0).choice(len(paths), (number, 2), replace=False).tolist()
    agreed, medians = [], []
    for pair in drawn:
        clips = [read_clip(paths[index], 24) for index in pair]
        figures = compare(engine, clips, *side_by_side(clips))
        agreed.append(float(figures["agree"].value))
        medians.append(float(figures["median"].value))
    agreement = Measured(float(np.mean(agreed)), min(agreed), max(agreed), f"{number} pairs")
    return {"pairs_agree": agreement, "pairs_median": Measured(float(np.median(medians)))}


def main(arguments: argparse.Namespace) -> dict[str, Measured]:
    """Return all figures."""
    if not arguments.media.is_dir():
        not_here(f"no {arguments.media}: clips of people")
    if arguments.state_frames:
        return {"memory_of_states_mb": growth_of_states(arguments.state_frames)}
    engine = HolisticEstimator(people="all", people_from=arguments.people_from)
    if arguments.pairs:
        return agreement_of_pairs(engine, arguments.pairs)
    clips = [read_clip(arguments.media / name, arguments.frames) for name in _CLIPS]
    figures: dict[str, Measured] = {}
    small = [shrink(clip) for clip in clips]
    for name, chosen, put in (
        ("two", clips[:2], side_by_side),
        ("three", clips, side_by_side),
        ("crossing", small[:2], crossing),
        ("three_crossing", small, crossing),
    ):
        places, size_wh = put(chosen)
        figures |= {
            f"{name}_{key}": value
            for key, value in compare(engine, chosen, places, size_wh).items()
        }
    for name, number in (("two", 2), ("three", 3)):
        figures[f"{name}_noise_agree"] = agreement_with_noise(clips[:number])
    figures |= rare_cases(engine, clips[0])
    figures["time_of_person"] = time_of_person(arguments.people_from, clips[0])
    if arguments.memory_frames:
        figures["memory_mb"] = memory_growth(engine, clips[0], arguments.memory_frames)
    return figures


if __name__ == "__main__":
    parser = make_parser(__doc__)
    parser.add_argument("--media", type=Path, default=_MEDIA)
    parser.add_argument("--frames", type=int, default=73)
    parser.add_argument("--people-from", default="detector")
    parser.add_argument("--pairs", type=int, default=0)
    parser.add_argument("--memory-frames", type=int, default=0)
    parser.add_argument("--state-frames", type=int, default=0)
    chosen = parser.parse_args()
    report(main(chosen), as_json=chosen.json)
