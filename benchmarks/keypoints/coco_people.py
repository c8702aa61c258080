"""How well engines find people: AP of pycocotools on pictures with COCO's annotations.

    python -m benchmarks.keypoints.coco_people --data FOLDER [--engine openpose] [--json]

FOLDER has `images/` and `person_keypoints.json`. Every engine that finds several people goes the
way a user goes: extract, export to COCO with all people, scored by pycocotools. Prints AP, AP at
0.5, CPU milliseconds a picture, and of openpose what is around the network as a
share of its time.
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
from benchmarks.shared.measuring import Measured, make_parser, report
from posemill.decoders.pictures import read_picture
from posemill.estimators import engine_info, known_engines, open_estimator

_ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "openpose": ("openpose", {}),
    "openpose_two_scales": ("openpose", {"second_scale": True}),
}


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
    """Return CPU milliseconds a picture, and of openpose the share of decoding."""
    estimator: Any = open_estimator(engine, **options)
    frames = [read_picture(path) for path in sorted((data / "images").iterdir())[:8]]
    estimator.estimate(frames[:1])
    start = time.process_time()
    estimator.estimate(frames)
    whole = time.process_time() - start
    measured = {"milliseconds": Measured(whole / len(frames) * 1e3)}
    if engine == "openpose" and not options:
        network = estimator._network
        inputs = [np.ascontiguousarray(cv2.resize(frame, (496, 368)).transpose(2, 0, 1)[None, ::-1],
                                       np.float32) for frame in frames]  # fmt: skip
        start = time.process_time()
        for picture in inputs:
            network.run(picture)
        inside = time.process_time() - start
        measured["around_network"] = Measured(max(whole - inside, 0.0) / inside)
    return measured


def main(arguments: argparse.Namespace) -> dict[str, Measured]:
    """Return the figures of all engines that find several people."""
    several = [name for name in known_engines() if engine_info(name).people == "several"]
    figures: dict[str, Measured] = {}
    for arm, (engine, options) in _ARMS.items():
        if engine in several and arguments.engine in (None, engine):
            for key, value in (
                score(arguments.data, engine, options)
                | time_pictures(arguments.data, engine, options)
            ).items():
                figures[f"{arm}_{key}"] = value
    return figures


if __name__ == "__main__":
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--engine")
    chosen = parser.parse_args()
    report(main(chosen), as_json=chosen.json)
