import av
import cv2
import numpy as np
import pytest


def _make_tree(root, *names):
    """Make files at these paths below root; pictures are real ones, each of its own grey."""
    for number, name in enumerate(names):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix.lower() in (".png", ".jpg", ".jpeg"):
            grey = np.full((6, 8, 3), number, np.uint8)
            path.write_bytes(cv2.imencode(path.suffix, grey)[1].tobytes())
        else:
            path.write_bytes(b"x" * number)
    return root


def _make_video(path, num_frames=10):
    """Write a grey video, 10 frames a second, each frame brighter than the one before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = 32, 16, "yuv420p"
        for number in range(num_frames):
            pixels = np.full((16, 32, 3), 20 * number % 256, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode(None))
    return path


@pytest.fixture
def make_tree():
    """Makes files at given paths."""
    return _make_tree


@pytest.fixture
def make_video():
    """Writes a small video."""
    return _make_video


@pytest.fixture
def phoenix(tmp_path):
    """A tiny PHOENIX-2014-T release, with its quirks."""
    base = tmp_path / "PHOENIX-2014-T-release-v3" / "PHOENIX-2014-T"
    frames = base / "features" / "fullFrame-210x260px"
    rows = {
        "train": [
            'a-1|a-1/1/*.png|-1|-1|Signer01|REGEN "STARK|es "regnet',
            "a-2|a-2/1/*.png|-1|-1|Signer02|SONNE|schön",
        ],
        "dev": ["b-1|b-1/1/*.png|-1|-1|Signer01|WIND|wind"],
        "test": ["c-1|c-1/1/*.png|-1|-1|Signer03|WOLKE|wolken"],
    }
    header = "name|video|start|end|speaker|orth|translation"
    (base / "annotations" / "manual").mkdir(parents=True)
    for split, lines in rows.items():
        corpus = base / "annotations" / "manual" / f"PHOENIX-2014-T.{split}.corpus.csv"
        corpus.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
        for line in lines:
            name = line.partition("|")[0]
            _make_tree(frames / split / name, *(f"images{n:04d}.png" for n in range(1, 4)))
    (frames / "train" / "a-1" / "createDnnTrainingLabels-profile.py.lprof").write_text("stray")
    return base.parent
