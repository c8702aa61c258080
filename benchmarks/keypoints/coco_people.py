"""How well engines find people: AP of pycocotools on pictures with COCO's annotations.

    python -m benchmarks.keypoints.coco_people [--data FOLDER] [--engine openpose] [--json]

FOLDER has `images/` and `person_keypoints.json`. Every engine goes the way a user goes: extract,
export to COCO with all people, scored by pycocotools. Prints AP, AP at 0.5 and CPU milliseconds a
picture, of openpose and movenet also what is around the networks as a share of their time.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np

import posemill
from benchmarks.shared.measuring import Measured, make_parser, not_here, report
from posemill.decoders.pictures import read_picture
from posemill.estimators import open_estimator

_DATA = Path(__file__).parents[3] / "shared" / "datasets" / "coco_people"
_ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "openpose": ("openpose", {}),
    "openpose_two_scales": ("openpose", {"second_scale": True}),
    "movenet_thunder": ("movenet", {"network": "thunder"}),
    "movenet_lightning": ("movenet", {"network": "lightning"}),
    "holistic": ("holistic", {}),  # one person a picture
    "holistic_all": ("holistic", {"people": "all"}),
    "holistic_all_movenet": ("holistic", {"people": "all", "people_from": "movenet"}),
}
_COLUMNS = {"ap": "AP", "ap_50": "AP at 0.5", "milliseconds": "ms a picture",
            "around_network": "around the networks"}  # fmt: skip


def score(data: Path, engine: str, options: dict[str, Any]) -> dict[str, Measured]:
    """Return AP and CPU time of one engine."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        run, out = Path(folder) / "run", Path(folder) / "people.json"
        posemill.extract(data / "images", out=run, engine=engine, engine_options=options,
                         workers=1, progress=False)  # fmt: skip
        posemill.export(run, "coco", out, person="all", progress=False)
        found = json.loads(out.read_text())
        truth = COCO(str(data / "person_keypoints.json"))
        ids = {Path(image["file_name"]).name: image["id"] for image in truth.dataset["images"]}
        names = {image["id"]: Path(image["file_name"]).name for image in found["images"]}
        results = [{**each, "image_id": ids[names[each["image_id"]]]}
                   for each in found["annotations"]]  # fmt: skip
        scored = COCOeval(truth, truth.loadRes(results), "keypoints")
        scored.evaluate()
        scored.accumulate()
        scored.summarize()
    return {"ap": Measured(float(scored.stats[0])), "ap_50": Measured(float(scored.stats[1]))}


def time_pictures(data: Path, engine: str, options: dict[str, Any]) -> dict[str, Measured]:
    """Return CPU milliseconds a picture, and the share of what is around the networks."""
    estimator: Any = open_estimator(engine, **options)
    frames = [read_picture(path) for path in sorted((data / "images").iterdir())[:8]]
    estimator.estimate(frames[:1])
    start = time.process_time()
    found = estimator.estimate(frames)
    whole = time.process_time() - start
    people = int(found.scores.any(axis=1).sum())
    if found.others is not None:
        people += int(found.others.counts.sum())
    taken = Measured(whole / len(frames) * 1e3, note=f"{people / len(frames):.1f} people in each")
    if engine == "openpose" and not options:
        inputs = [np.ascontiguousarray(cv2.resize(frame, (496, 368)).transpose(2, 0, 1)[None, ::-1],
                                       np.float32) for frame in frames]  # fmt: skip
        start = time.process_time()
        for picture in inputs:
            estimator._network.run(picture)
    elif engine == "movenet":
        start = _replay(estimator, frames)
    else:
        return {"milliseconds": taken}
    inside = time.process_time() - start
    return {"milliseconds": taken,
            "around_network": Measured(max(whole - inside, 0.0) / inside)}  # fmt: skip


def _replay(estimator: Any, frames: list[Any]) -> float:
    """Run a movenet's networks on what they saw of the frames; return when that began."""
    seen: list[tuple[Any, dict[str, Any]]] = []
    sessions = [network._session for network in (estimator._detector, estimator._network)]
    for network, session in zip((estimator._detector, estimator._network), sessions, strict=True):
        network._session = _Recorder(session, seen)
    estimator.estimate(frames)
    start = time.process_time()
    for session, feed in seen:
        session.run(None, feed)
    return start


class _Recorder:
    """A session that keeps what it was given."""

    def __init__(self, session: Any, seen: list[tuple[Any, dict[str, Any]]]) -> None:
        self._session, self._seen = session, seen

    def run(self, names: None, feed: dict[str, Any]) -> Any:
        """Return the outputs."""
        self._seen.append((self._session, feed))
        return self._session.run(names, feed)


def main(arguments: argparse.Namespace) -> dict[str, Measured]:
    """Return the figures of all engines."""
    if not arguments.data.is_dir():
        not_here(f"no {arguments.data}: pictures with COCO's annotations")
    figures: dict[str, Measured] = {}
    for arm, (engine, options) in _ARMS.items():
        if arguments.engine in (None, engine):
            measured = score(arguments.data, engine, options)
            measured |= time_pictures(arguments.data, engine, options)
            figures |= {f"{arm}_{key}": value for key, value in measured.items()}
    return figures


def print_table(figures: dict[str, Measured]) -> None:
    """Print a line for each engine."""
    print(f"{'':20}" + "".join(f"{name:>21}" for name in _COLUMNS.values()))
    for arm in _ARMS:
        if f"{arm}_ap" in figures:
            cells = [figures.get(f"{arm}_{key}") for key in _COLUMNS]
            print(f"{arm:20}" + "".join(f"{cell.value if cell else float('nan'):21.3f}"
                                        for cell in cells))  # fmt: skip


if __name__ == "__main__":
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=Path, default=_DATA)
    parser.add_argument("--engine")
    chosen = parser.parse_args()
    if chosen.json:
        report(main(chosen), as_json=True)
    else:
        print_table(main(chosen))
