"""The same nine clips as videos, as folders of pictures and as a pack."""

import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from posemill.testing.decoders import write_video

sys.path.insert(0, str(Path(__file__).parent))
from numbered_clips import HEIGHT, INDEX_COLUMNS, NUM_FRAMES, ROWS, WIDTH, frames_of, write_rows


@pytest.fixture
def packed(tmp_path):
    """A folder as `posemill frames --pack` writes it."""
    folder = tmp_path / "packed"
    (folder / "packs").mkdir(parents=True)
    stored = np.stack([frames_of(clip) for clip in range(len(ROWS))])
    (folder / "packs" / "000000.rgb").write_bytes(stored.tobytes())
    size = stored[0].nbytes
    rows = [
        ("packs/000000.rgb", *row, "rgb", size * number, NUM_FRAMES, WIDTH, HEIGHT, 25, "0-11",
         f"day{number % 2}")
        for number, row in enumerate(ROWS)
    ]  # fmt: skip
    write_rows(folder / "index.csv", f"{INDEX_COLUMNS},day", rows)
    return folder


@pytest.fixture
def pictures(tmp_path):
    """A folder as `posemill frames --format png` writes it."""
    folder = tmp_path / "pictures"
    rows = []
    for number, (name, split, label) in enumerate(ROWS):
        path = folder / split / name
        path.mkdir(parents=True)
        for place, frame in enumerate(frames_of(number)):
            cv2.imwrite(str(path / f"{place:06d}.png"), frame[..., ::-1])
        rows.append((f"{split}/{name}", name, split, label, "png", "", NUM_FRAMES, WIDTH, HEIGHT,
                     25, "0-11"))  # fmt: skip
    write_rows(folder / "index.csv", INDEX_COLUMNS, rows)
    return folder


@pytest.fixture(scope="session")
def videos(tmp_path_factory):
    """A list of nine videos of 12 numbered frames."""
    folder = tmp_path_factory.mktemp("videos")
    for name, _, _ in ROWS:
        write_video(folder / f"{name}.mp4", num_frames=NUM_FRAMES)
    rows = [(f"{name}.mp4", *rest) for name, *rest in ROWS]
    return write_rows(folder / "videos.csv", "path,split,label", rows)
