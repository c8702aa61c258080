"""`posemill frames`: two workers against one, and what it buys a training that samples 8 frames.

    python -m benchmarks.datasets.frames [--clips 24] [--rounds 3] [--json]

Clips of 10 s at 340 x 256 and 25 frames a second, H.264 with a keyframe every 250 frames, made of a
published video. Workers: frames per second from when they are at work to the last commit; wanted
are 1.85 of one. Reading: the 8 frames in the middles of TSN's segments, by CPU time in one thread,
of the video, of the pictures (`--format jpg`) and of the packs (`--pack`) that `posemill frames`
made of it, all at 340 x 256. Wanted: pictures 15 times, packs 40 times as fast as the video.
"""

from __future__ import annotations

import shutil
import tempfile
from fractions import Fraction
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import av
import cv2
import numpy as np

from benchmarks.datasets.extract_scaling import Speed, measure_speed
from benchmarks.shared.measuring import Measured, in_turns, make_parser, over_rounds, ratio, report
from posemill.config import FramesConfig
from posemill.decoders import open_video
from posemill.decoders.pictures import resize_frame
from posemill.decoders.sampling import Sampling
from posemill.jobs.frames import write_frames
from posemill.records import Clip
from posemill.training.video.index import read_index
from posemill.training.video.reading import ClipReader, FrameSize
from posemill.weights.pull import ensure_media

NUM_FRAMES = 250
SEGMENTS = Sampling.parse("segments:8")


def main() -> None:
    """Run the benchmark."""
    parser = make_parser(__doc__)
    parser.add_argument("--clips", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    cv2.setNumThreads(1)
    scratch = Path(tempfile.mkdtemp(prefix="posemill-frames-"))
    try:
        source = make_videos(scratch / "videos", options.clips)
        found = compare_workers(scratch, source, options.rounds)
        report(found | compare_reading(scratch, source, options.rounds), as_json=options.json)
    finally:
        shutil.rmtree(scratch)


def make_videos(root: Path, num_clips: int) -> Path:
    """Write clips of the published video, each one of other frames."""
    root.mkdir()
    with open_video(ensure_media("carphone"), threads=2) as reader:
        frames = [resize_frame(frame, (340, 256)) for frame in reader]
    for number in range(num_clips):
        with av.open(str(root / f"clip{number:03d}.mp4"), "w") as container:
            stream = container.add_stream("libx264", rate=Fraction(25), options={"g": "250"})
            stream.width, stream.height, stream.pix_fmt = 340, 256, "yuv420p"
            for pixels in islice(cycle(frames), 13 * number, 13 * number + NUM_FRAMES):
                container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
            container.mux(stream.encode())
    return root


def compare_workers(scratch: Path, source: Path, rounds: int) -> dict[str, Measured]:
    """Return the ratio of two workers to one, by frames per second and by CPU time of a frame."""

    def run(workers: int) -> Speed:
        shutil.rmtree(scratch / "out", ignore_errors=True)
        config = FramesConfig(source, scratch / "out", workers=workers)
        return measure_speed(lambda watch: write_frames(config, on_progress=watch), workers)

    arms = {"one": partial(run, 1), "two": partial(run, 2)}
    measured = in_turns(arms, rounds, clock=None, warm_up=0)
    speeds = {name: [speed for speed, _ in values] for name, values in measured.items()}
    cpu = {name: [ms for _, ms in values] for name, values in measured.items()}
    middles = ", ".join(f"{over_rounds(each).value:.0f}" for each in speeds.values())
    return {
        "two_of_one": ratio(speeds["two"], speeds["one"]).noted(f"one, two: {middles} frames/s"),
        "two_of_one_by_cpu": ratio(cpu["one"], cpu["two"]),
    }


def compare_reading(scratch: Path, source: Path, rounds: int) -> dict[str, Measured]:
    """Return how many times faster pictures and packs are than the videos they were made of.

    As `VideoClips` reads them, each video opened anew, its index kept; whole frames, and frames
    brought to 112 x 112 on the way (`jpg_112`, `pack_112`).
    """
    jpg = write_frames(FramesConfig(source, scratch / "jpg", workers=2))
    pack = write_frames(FramesConfig(source, scratch / "pack", workers=2, pack=True))
    of_video = sum(path.stat().st_size for path in source.iterdir())
    disk = {"jpg": jpg.num_bytes / of_video, "pack": pack.num_bytes / of_video}
    places = {name: read_index(each).clips for name, each in
              {"video": source, "jpg": jpg.index, "pack": pack.index}.items()}  # fmt: skip
    found: dict[str, Measured] = {}
    for end, size_wh in {"": None, "_112": (112, 112)}.items():
        arms = {
            name: partial(read_clips, clips, FrameSize(size_wh)) for name, clips in places.items()
        }
        if size_wh is None and not all(map(np.array_equal, arms["video"](), arms["pack"]())):
            raise SystemExit("the frames of the packs are not those of the videos")
        taken = in_turns(arms, rounds)
        ms = {name: 1e3 * over_rounds(each).value / len(places["jpg"])
              for name, each in taken.items()}  # fmt: skip
        note = ", ".join(f"{name} {each:.2f}" for name, each in ms.items()) + " ms of CPU a clip"
        for name, times in disk.items():
            found[name + end] = ratio(taken["video"], taken[name]).noted(
                f"{note}; {times:.0f} x the disk"
            )
    return found


def read_clips(places: list[Clip], size: FrameSize) -> list[np.ndarray]:
    """Return the 8 frames of every clip."""
    reader = ClipReader(size, decoder="pyav", max_open=1)
    found = [reader.read(place, SEGMENTS, None)[0] for place in places]
    reader.close()
    return found


if __name__ == "__main__":
    main()
