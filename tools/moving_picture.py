"""`python -m tools.moving_picture --out FILE.webp`: the picture on top of the README.

It extracts the demo's clip of a jumper, draws the keypoints and cuts out the person. The picture is
made anew by `make screenshots`.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import av
from PIL import Image

import posemill
from posemill.weights.pull import ensure_media

FRAMES = range(10, 104, 2)  # jumping jacks, before anybody else comes into view
BOX = (0.22, 0.0, 0.62, 0.5)  # left, top, right, bottom, as shares of the movie
WIDTH, MILLISECONDS = 400, 66


def main() -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/images/keypoints.webp"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = folder / "run"
        posemill.extract(ensure_media("jumper"), out=run)
        posemill.visualize(run, out=folder / "movies", video="mp4", all=True)
        [movie] = (folder / "movies").rglob("*.mp4")
        with av.open(str(movie)) as container:
            frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    pictures = [cut_out(Image.fromarray(frames[index])) for index in FRAMES]
    pictures[0].save(
        options.out,
        save_all=True,
        append_images=pictures[1:],
        duration=MILLISECONDS,
        loop=0,
        quality=50,
        method=6,
    )


def cut_out(frame: Image.Image) -> Image.Image:
    """Return the part of a frame that is shown."""
    left, top, right, bottom = BOX
    width, height = frame.size
    box = (int(left * width), int(top * height), int(right * width), int(bottom * height))
    picture = frame.crop(box)
    return picture.resize((WIDTH, round(WIDTH * picture.height / picture.width)))


if __name__ == "__main__":
    main()
