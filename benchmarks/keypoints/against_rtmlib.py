"""The engine `wholebody` against rtmlib: the same ONNX files, the same pictures, one thread.

    python -m benchmarks.keypoints.against_rtmlib [--rounds 7] [--pictures 12] [--json]
    python -m benchmarks.keypoints.against_rtmlib --golden tests/estimators/wholebody/rtmlib.npz

The files have random weights (`benchmarks/shared/pose_networks.py`): once next to nothing to
compute, so that what is around the networks shows, and once some millions of multiplications.
rtmlib's sessions get the settings of ours. Points are compared too: the largest distance of one
that both have. `--golden` writes what rtmlib says of the files and pictures of the tests.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from benchmarks.datasets.extract_scaling import run_extract
from benchmarks.shared.measuring import Measured, in_turns, make_parser, over_rounds, ratio, report
from benchmarks.shared.pose_networks import make_pictures, write_detector, write_pose
from posemill.estimators import open_estimator
from posemill.estimators.runtimes.onnx_network import open_onnx
from posemill.records import Frame, Keypoints

Array = npt.NDArray[Any]
Person = tuple[Array, Array]  # points (points, 2) in pixels, scores (points,)


@dataclass(frozen=True)
class Case:
    """A pose network and a detector; None: the picture is the box."""

    pose: Path
    pose_size_wh: tuple[int, int]
    detector: Path | None
    detector_kind: str = "yolox"
    detector_size_wh: tuple[int, int] = (0, 0)

    @property
    def options(self) -> dict[str, Any]:
        """Of the engine `wholebody`."""
        detector = {} if self.detector is None else {"detector": str(self.detector)}
        return {"pose": str(self.pose), **detector}


def make_golden_cases(folder: Path) -> dict[str, Case]:
    """Write the files that tests compare on; a name says detector and number of points."""
    size, small = (128, 96), (48, 64)
    poses = {count: write_pose(folder / f"pose_{count}.onnx", count) for count in (133, 26, 17)}
    detectors = {
        name: write_detector(folder / f"{name}.onnx", kind, has_nms=has_nms, size_wh=size)
        for name, kind, has_nms in (
            ("yolox", "yolox", False), ("yolox_nms", "yolox", True), ("rtmdet", "rtmdet", True),
        )
    }  # fmt: skip
    return {
        "yolox_133": Case(poses[133], small, detectors["yolox"], "yolox", size),
        "yolox_nms_26": Case(poses[26], small, detectors["yolox_nms"], "yolox", size),
        "rtmdet_17": Case(poses[17], small, detectors["rtmdet"], "rtmdet", size),
        "picture_133": Case(poses[133], small, None),
    }


def make_golden_pictures() -> list[Frame]:
    """Return the pictures that tests compare on: of the detector's size, wide, high, small."""
    return make_pictures([(128, 96), (320, 240), (97, 131), (640, 300), (33, 240)])


class Rtmlib:
    """rtmlib on the files of a case, with our settings of ONNX Runtime."""

    def __init__(self, case: Case) -> None:
        import rtmlib

        kinds = {"yolox": rtmlib.YOLOX, "rtmdet": rtmlib.RTMDet}
        with contextlib.redirect_stdout(io.StringIO()):
            self._pose = rtmlib.RTMPose(str(case.pose), model_input_size=case.pose_size_wh)
            self._detector = None
            if case.detector is not None:
                side = case.detector_size_wh[::-1]  # its detectors want the height first
                kind = kinds[case.detector_kind]
                self._detector = kind(str(case.detector), model_input_size=side)
        for tool in (self._pose, self._detector):
            if tool is not None:
                tool.session = open_onnx(tool.onnx_model, "rtmlib", device="cpu", threads=1)

    def boxes(self, picture: Array) -> Array:
        """Return the boxes in a BGR picture."""
        if self._detector is None:
            return np.array([[0, 0, *picture.shape[1::-1]]])
        return np.array(self._detector(picture)).reshape(-1, 4)

    def people(self, picture: Array) -> list[Person]:
        """Return the people in a BGR picture; rtmlib takes an empty one for a person."""
        boxes = self.boxes(picture)
        if not len(boxes):
            return []
        points, scores = self._pose(picture, boxes if self._detector is not None else [])
        return list(zip(points, scores, strict=True))


def people_of(found: Keypoints, row: int) -> list[Person]:
    """Return the people of one frame of ours, in pixels."""
    assert found.others is not None
    others = found.others.of_frames(row, row + 1)
    points = np.concatenate([found.points[row : row + 1], others.points])[..., :2]
    scores = np.concatenate([found.scores[row : row + 1], others.scores])
    everybody = zip(points.astype(np.float64) * found.sizes_wh[row], scores, strict=True)
    return [person for person in everybody if person[1].any()]


def distance(
    ours: Sequence[Person],
    theirs: Sequence[Person],
    *,
    score_tolerance: float = 1e-5,
    rounding: float = 0.0,
) -> float:
    """Return the largest distance in x or y of any point of any person; infinite if one lacks.

    Points they score 0 or below are none, and no score is above 1: there we differ from them.

    Args:
        ours: People that posemill found, in pixels.
        theirs: Those of rtmlib.
        score_tolerance: How far the scores of one person may be apart.
        rounding: Largest score of a point that may be missing in one of the two.
    """
    if len(ours) != len(theirs):
        return np.inf
    largest = 0.0
    unclaimed = list(theirs)
    for points, scores in ours:
        apart = []
        for their_points, their_scores in unclaimed:
            in_both = (scores > 0) & (their_scores > 0)
            lone_scores = np.maximum(scores, their_scores)[~in_both]
            is_same = (
                in_both.any()
                and lone_scores.max(initial=0) <= rounding
                and np.allclose(
                    scores[in_both], np.minimum(their_scores[in_both], 1), atol=score_tolerance
                )
            )
            apart.append(np.abs(points - their_points)[in_both].max() if is_same else np.inf)
        nearest = int(np.argmin(apart))
        largest = max(largest, apart[nearest])
        del unclaimed[nearest]
    return largest


def write_golden(path: Path) -> None:
    """Write points and scores of rtmlib for the cases and pictures of the tests."""
    arrays: dict[str, Array] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, case in make_golden_cases(Path(folder)).items():
            rtmlib = Rtmlib(case)
            for row, picture in enumerate(make_golden_pictures()):
                bgr = np.ascontiguousarray(picture[..., ::-1])
                people = rtmlib.people(bgr)
                arrays[f"{name}.{row}.points"] = np.array([points for points, _ in people])
                arrays[f"{name}.{row}.scores"] = np.array([scores for _, scores in people])
    save: Any = np.savez_compressed  # its stub takes names for options
    save(path, **arrays)


def compare(case: Case, pictures: Sequence[Frame], rounds: int) -> dict[str, Measured]:
    """Return CPU time of rtmlib / ours, and the largest distance of a point."""
    cv2.setNumThreads(1)
    rtmlib, ours = Rtmlib(case), open_estimator("wholebody", **case.options)
    reversed_ = [np.ascontiguousarray(picture[..., ::-1]) for picture in pictures]
    found = ours.estimate(pictures)
    far = [distance(people_of(found, row), rtmlib.people(bgr))
           for row, bgr in enumerate(reversed_)]  # fmt: skip
    num_people = sum(len(people_of(found, row)) for row in range(len(pictures)))
    taken = in_turns(
        {
            "rtmlib": lambda: [rtmlib.people(bgr) for bgr in reversed_],
            "ours": lambda: [ours.estimate([picture]) for picture in pictures],
        },
        rounds,
    )
    middles = {name: 1000 * over_rounds(times).value / len(pictures)
               for name, times in taken.items()}  # fmt: skip
    note = (
        f"{middles['rtmlib']:.1f} / {middles['ours']:.1f} ms a picture of "
        f"{num_people / len(pictures):.1f} people"
    )
    return {
        "cpu": ratio(taken["rtmlib"], taken["ours"]).noted(note),
        "distance": Measured(max(far)),
    }


def scale(case: Case, pictures: Sequence[Frame], rounds: int) -> dict[str, Measured]:
    """Return pictures per second of two workers / those of one, and CPU time of one / two."""
    with tempfile.TemporaryDirectory() as folder:
        source, run = Path(folder) / "pictures", Path(folder) / "run"
        source.mkdir()
        for index in range(300):
            picture = pictures[index % len(pictures)][..., ::-1]
            assert cv2.imwrite(str(source / f"{index:04d}.jpg"), picture)
        # Of so few pictures tasks as for many more: the last worker must not work alone for long.
        settings = {"engine": "wholebody", "engine_options": case.options, "layout": "pictures",
                    "task_frames": 12}  # fmt: skip
        taken = in_turns(
            {"one": lambda: run_extract(source, run, 1, **settings),
             "two": lambda: run_extract(source, run, 2, **settings)},
            rounds, clock=None, warm_up=0,
        )  # fmt: skip
    speeds, cpu = ({name: [each[index] for each in values] for name, values in taken.items()}
                   for index in (0, 1))  # fmt: skip
    middles = ", ".join(f"{over_rounds(each).value:.1f}" for each in speeds.values())
    return {
        "two_of_one": ratio(speeds["two"], speeds["one"]).noted(f"{middles} pictures/s"),
        "two_of_one_by_cpu": ratio(cpu["one"], cpu["two"]),
    }


def make_case(folder: Path, pictures: Sequence[Frame], width: int, layers: int) -> Case:
    """Write a detector that finds some people in these pictures, and a pose network."""
    pose_wh, detector_wh = (192, 256), (416, 416)
    pose = write_pose(folder / f"pose_{width}.onnx", size_wh=pose_wh, width=width, layers=layers)
    for seed in range(100):
        detector = write_detector(folder / f"detector_{width}.onnx", size_wh=detector_wh,
                                  classes=80, width=width, layers=layers, seed=seed)  # fmt: skip
        case = Case(pose, pose_wh, detector, "yolox", detector_wh)
        found = open_estimator("wholebody", **case.options).estimate(pictures[:3]).others
        if found is not None and found.counts.min() >= 3 and found.counts.max() <= 12:
            return case
    raise RuntimeError("no seed finds 3 to 12 people")


def main() -> None:
    """Run the benchmark."""
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--pictures", type=int, default=12)
    parser.add_argument("--golden", type=Path, help="write what the tests compare with")
    options = parser.parse_args()
    if options.golden:
        write_golden(options.golden)
        return
    pictures = make_pictures(
        [(640, 480), (480, 640), (1280, 720)] * (options.pictures // 3), seed=3
    )
    with tempfile.TemporaryDirectory() as name:
        found = {}
        for key, width, layers in (("bare", 4, 0), ("usual", 32, 3)):
            case = make_case(Path(name), pictures, width, layers)
            for what, measured in compare(case, pictures, options.rounds).items():
                found[f"{key}_{what}"] = measured
        found |= scale(case, pictures, 2)
    report(found, as_json=options.json)


if __name__ == "__main__":
    main()
