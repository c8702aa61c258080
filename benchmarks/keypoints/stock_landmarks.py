"""The landmarks of stock MediaPipe 0.10.21 that the tests compare with, as one small npz file.

    python -m benchmarks.keypoints.stock_landmarks [--out FILE]

Frames of the demo's clip of a jumping man, which anybody can fetch: some that stand alone (image
mode), and the first ones in a row (video mode). Run again, it writes the same file: the one in
`tests/estimators/holistic/`. Stock lives in a side environment below `.bench/`, made at first use.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import zlib
from itertools import islice
from pathlib import Path

import numpy as np

from benchmarks.shared.stock_environment import stock_python
from posemill.decoders import open_video
from posemill.files import atomic_path
from posemill.weights.pull import ensure_media

OUT = Path(__file__).parents[2] / "tests/estimators/holistic/stock_jumper.npz"
# Nobody, no hand, one hand or the other, both; a second person in view.
IMAGE_FRAMES = (0, 3, 8, 9, 12, 45, 75, 83)
# From the start, so that what is tracked is the same: a face and both hands come and go.
NUM_VIDEO_FRAMES = 44
STOCK_SCRIPT = """
import os, sys
os.environ["GLOG_minloglevel"] = "3"
import numpy as np
import mediapipe as mp
sizes = dict(pose=33, face=468, left_hand=21, right_hand=21)
found = {}
for mode in ("image", "video"):
    frames = np.load(sys.argv[1])[mode]
    rows = {part: [] for part in sizes}
    holistic = mp.solutions.holistic.Holistic(static_image_mode=mode == "image")
    for frame in frames:
        if mode == "image":
            holistic.reset()
        results = holistic.process(frame)
        for part, points in sizes.items():
            landmarks = getattr(results, part + "_landmarks")
            rows[part].append(np.full((points, 4), np.nan) if landmarks is None else
                              [(p.x, p.y, p.z, p.visibility) for p in landmarks.landmark])
    for part, values in rows.items():
        columns = 4 if part == "pose" else 3
        found[f"{mode}_{part}"] = np.array(values, np.float32)[..., :columns]
np.savez(sys.argv[2], **found)
"""


def read_frames() -> tuple[np.ndarray, np.ndarray]:
    """Return the frames that stand alone and those in a row, RGB."""
    with open_video(ensure_media("jumper")) as video:
        frames = list(islice(video, max(*IMAGE_FRAMES, NUM_VIDEO_FRAMES) + 1))
    return np.stack([frames[index] for index in IMAGE_FRAMES]), np.stack(frames[:NUM_VIDEO_FRAMES])


def main() -> None:
    """Ask stock, write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=OUT)
    out: Path = parser.parse_args().out
    image, video = read_frames()
    with tempfile.TemporaryDirectory() as scratch:
        frames, found = Path(scratch) / "frames.npz", Path(scratch) / "found.npz"
        np.savez(frames, image=image, video=video)
        command = [stock_python(), "-c", STOCK_SCRIPT, frames, found]
        subprocess.run(list(map(str, command)), check=True, stderr=subprocess.DEVNULL)
        with np.load(found) as loaded:
            landmarks = dict(loaded)
    with atomic_path(out) as temporary, temporary.open("wb") as handle:
        np.savez_compressed(
            handle,
            image_frames=np.array(IMAGE_FRAMES),
            # A decoder that gives other pixels gives other landmarks: to be told apart.
            video_crc32=np.array([zlib.crc32(frame) for frame in video], np.uint32),
            size_wh=np.array(video.shape[2:0:-1]),
            **landmarks,
        )
    print(f"{out}: {out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
