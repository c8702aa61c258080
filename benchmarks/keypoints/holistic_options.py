"""What options of Holistic cost and give: parts that are off, and the fitted crop of hands.

    python -m benchmarks.keypoints.holistic_options parts [--frames FOLDER] [--rounds 5] [--json]
    python -m benchmarks.keypoints.holistic_options hands VIDEO_OR_FOLDER … [--most 90] [--json]

`parts`: CPU time of a frame for each set of parts over that of all, one thread, in turns. `hands`:
both rules for where a hand is looked for, in video mode: share of hands found, gaps between two
sightings in frames, and jumps: the mean movement of a hand's points between two frames, in widths
of the shoulders.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.keypoints.against_stock import read_frames
from benchmarks.shared.measuring import Measured, in_turns, make_parser, ratio, report
from posemill.decoders import open_video
from posemill.estimators.holistic import HolisticEstimator

PARTS = ("pose,hands,face", "pose,hands", "pose,face", "pose")
LARGE_JUMP = 0.25
SHOULDERS = (11, 12)
HANDS = (slice(501, 522), slice(522, 543))


def time_parts(frames: list[np.ndarray], rounds: int) -> dict[str, Measured]:
    """Return the CPU time of each set of parts over that of all of them."""
    engines = {parts: HolisticEstimator(parts=parts) for parts in PARTS}
    found = {}
    for mode in ("image", "video"):

        def run(engine: HolisticEstimator, mode: str = mode) -> None:
            states = [engine.new_state()] if mode == "video" else None
            for frame in frames:
                engine.estimate([frame], states)

        arms = {name: lambda engine=engine: run(engine) for name, engine in engines.items()}
        taken = in_turns(arms, rounds)
        for name in PARTS[1:]:
            found[f"{mode} {name}"] = ratio(taken[name], taken[PARTS[0]])
    return found


def read_clips(paths: list[Path], most: int) -> Iterator[list[np.ndarray]]:
    """Yield the first frames of videos, and of folders of pictures."""
    for path in paths:
        if path.is_dir():
            yield read_frames(path, most)
        else:
            with open_video(path) as video:
                yield list(islice(video, most))


def gaps_of(is_there: np.ndarray) -> list[int]:
    """Return the lengths of the gaps between two sightings."""
    seen = np.flatnonzero(is_there)
    return [int(gap) - 1 for gap in np.diff(seen) if gap > 1]


def look_for_hands(paths: list[Path], most: int) -> dict[str, Measured]:
    """Return what both rules find."""
    engines = {
        crop: HolisticEstimator(hand_crop=crop, parts="pose,hands") for crop in ("stock", "fitted")
    }
    seen: dict[str, dict[str, list[Any]]] = {
        crop: {"found": [], "gaps": [], "jumps": []} for crop in engines
    }
    for frames in read_clips(paths, most):
        for crop, engine in engines.items():
            state = engine.new_state()
            points = np.stack([engine.estimate([frame], [state]).points[0] for frame in frames])
            pixels = points[..., :2] * np.array(frames[0].shape[1::-1])
            breadth = np.linalg.norm(pixels[:, SHOULDERS[0]] - pixels[:, SHOULDERS[1]], axis=-1)
            for hand in HANDS:
                is_there = ~np.isnan(pixels[:, hand.start, 0])
                seen[crop]["found"] += is_there.tolist()
                seen[crop]["gaps"] += gaps_of(is_there)
                moved = np.linalg.norm(np.diff(pixels[:, hand], axis=0), axis=-1).mean(1)
                jumps = moved[is_there[1:] & is_there[:-1]] / np.nanmean(breadth)
                seen[crop]["jumps"] += jumps.tolist()
    return {
        f"{crop} {name}": Measured(float(value))
        for crop, lists in seen.items()
        for name, value in {
            "share of hands found": np.mean(lists["found"]),
            "number of gaps": len(lists["gaps"]),
            "mean gap": np.mean(lists["gaps"] or [0]),
            "longest gap": max(lists["gaps"], default=0),
            "95th percentile of jumps": np.percentile(lists["jumps"] or [0], 95),
            "share of large jumps": np.mean(np.array(lists["jumps"] or [0]) > LARGE_JUMP),
        }.items()
    }


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument("what", choices=("parts", "hands"))
    parser.add_argument("clips", type=Path, nargs="*", help="videos, or folders of frames")
    parser.add_argument("--frames", type=Path, help="of parts: a folder of pictures")
    parser.add_argument("--most", type=int, default=90, help="frames of a clip")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if options.what == "parts":
        found = time_parts(read_frames(options.frames, min(options.most, 24)), options.rounds)
    else:
        found = look_for_hands(options.clips, options.most)
    report(found, as_json=options.json)


if __name__ == "__main__":
    main()
