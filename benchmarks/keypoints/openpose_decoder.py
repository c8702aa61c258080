"""What finding people in OpenPose's maps costs, beside the network that gives them.

    python -m benchmarks.keypoints.openpose_decoder [--rounds 9] [--json]

One real person is put into a picture once, and ten times side by side. Of each picture: CPU time
of everything around the network (resizing, peaks, limbs, people) as a share of the network's, the
two in turns, one thread. Wanted: at most 0.15. Notes say how many people were found.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import cv2
import numpy as np

from benchmarks.shared.measuring import Measured, in_turns, make_parser, ratio, report
from posemill.decoders import open_video
from posemill.estimators import open_estimator
from posemill.records import Frame
from posemill.weights.pull import ensure_media

_SIZE_WH = (640, 480)


def picture_of(person: Frame, columns: int, rows: int) -> Frame:
    """Return a grey picture with a person in every place of a grid, as large as they fit."""
    width, height = _SIZE_WH[0] // columns, _SIZE_WH[1] // rows
    scale = min(width / person.shape[1], height / person.shape[0])
    size_wh = int(person.shape[1] * scale), int(person.shape[0] * scale)
    small = cv2.resize(person, size_wh, interpolation=cv2.INTER_AREA)
    picture = np.full((*_SIZE_WH[::-1], 3), 128, np.uint8)
    for place in range(columns * rows):
        left = place % columns * width + (width - size_wh[0]) // 2
        top = place // columns * height
        picture[top : top + size_wh[1], left : left + size_wh[0]] = small
    return picture


def cut_out(frame: Frame, engine: Any) -> Frame:
    """Return the part of a frame that shows its largest person, with some room around."""
    points = engine.estimate([frame]).points[0, :, :2] * frame.shape[1::-1]
    low, high = np.nanmin(points, axis=0), np.nanmax(points, axis=0)
    room = 0.2 * (high - low).max()
    (left, top), (right, bottom) = ((low - room).astype(int), (high + room).astype(int))
    return frame[max(top, 0) : bottom, max(left, 0) : right]


class _Seen:
    """Runs a network and keeps what went in and what came out."""

    def __init__(self, run: Callable[[Any], Any]) -> None:
        self._run, self.blob, self.answer = run, None, None

    def __call__(self, blob: Any) -> Any:
        self.blob, self.answer = blob, self._run(blob)
        return self.answer


def main() -> None:
    """Run the benchmark."""
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    engine: Any = open_estimator("openpose", threads=1)
    with open_video(ensure_media("jumper")) as video:
        person = cut_out(next(iter(video)), engine)
    found: dict[str, Measured] = {}
    for key, columns, rows in (("one", 1, 1), ("ten", 5, 2)):
        picture = picture_of(person, columns, rows)
        network, seen = engine._network, _Seen(engine._network.run)
        run, network.run = network.run, seen
        keypoints = engine.estimate([picture])
        blob, answer = seen.blob, seen.answer
        network.run = lambda _, answer=answer: answer  # what is left is around it
        arms = {"around": partial(engine.estimate, [picture]), "network": partial(run, blob)}
        times = in_turns(arms, options.rounds)
        network.run = run
        num_people = 1 + int(keypoints.others.counts[0])
        milliseconds = 1e3 * float(np.median(times["network"]))
        note = f"{num_people} people found; network {milliseconds:.0f} ms"
        found[f"{key}_around"] = ratio(times["around"], times["network"]).noted(note)
    report(found, as_json=options.json)


if __name__ == "__main__":
    main()
