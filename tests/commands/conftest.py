import cv2
import numpy as np
import pytest

import posemill

CLIPS = {"train/a": 6, "train/b": 4, "dev/c": 5}


@pytest.fixture
def tree(tmp_path):
    rng = np.random.default_rng(0)
    for clip, num_frames in CLIPS.items():
        (tmp_path / "tree" / clip).mkdir(parents=True)
        for index in range(num_frames):
            picture = rng.integers(100, 130, (48, 64, 3), dtype=np.uint8)  # neighbours are alike
            assert cv2.imwrite(str(tmp_path / "tree" / clip / f"{index}.png"), picture)
    return tmp_path / "tree"


@pytest.fixture
def run(tree, tmp_path):
    # Tracked: alone, the fake engine's first point is at 0, 0, which a pkl calls missing.
    posemill.extract(tree, tmp_path / "run", engine="fake", executor="serial", mode="video")
    return tmp_path / "run"
