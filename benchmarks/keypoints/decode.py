"""Sequential decoding: posemill against plain PyAV and OpenCV, CPU time on the same files.

    python -m benchmarks.keypoints.decode [VIDEO …] [--rounds 5] [--json]

All three decode every frame to RGB in one thread, file by file in turns, so that a busy machine
slows all of them, and all keep a frame until they have the next. Ratios above 1 mean that posemill
is faster. Without a VIDEO: the demo's clip, and the same as an AVI of 1280 x 720.

In a loop that does nothing but decode, glibc gives the memory of each large frame back and asks for
it again, and the kernel clears it every time: up to a third of the time at 1280 x 720. With an
engine beside it this was not seen (the same faults with and without), so `--keep-memory` turns it
off here to compare the decoders alone.
"""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import av
import cv2
import numpy as np

from benchmarks.shared.measuring import Measured, in_turns, make_parser, over_rounds, ratio, report
from posemill.decoders import open_video
from posemill.weights.pull import ensure_media


def decode_with_posemill(path: Path) -> int:
    """Return the number of frames."""
    count = 0
    with open_video(path, threads=1) as video:
        for _frame in video:
            count += 1
    return count


def decode_with_plain_pyav(path: Path) -> int:
    """Return the number of frames, decoded the way PyAV's examples do."""
    with av.open(str(path), metadata_errors="ignore") as container:
        container.streams.video[0].codec_context.thread_count = 1
        count = 0
        for frame in container.decode(video=0):
            _pixels = frame.to_ndarray(format="rgb24")
            count += 1
        return count


def decode_with_opencv(path: Path) -> int:
    """Return the number of frames, with the colours brought into the same order."""
    capture = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
    count = 0
    while True:
        is_there, frame = capture.read()
        if not is_there:
            capture.release()
            return count
        _pixels = cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)
        count += 1


DECODERS: dict[str, Callable[[Path], int]] = {
    "posemill": decode_with_posemill,
    "plain pyav": decode_with_plain_pyav,
    "opencv": decode_with_opencv,
}


def measure(name: str, path: Path, rounds: int) -> dict[str, Measured]:
    """Return the ratios of one file."""
    counts = {decoder: decode(path) for decoder, decode in DECODERS.items()}
    if len(set(counts.values())) > 1:
        raise SystemExit(f"{path} has not the same number of frames for all: {counts}")
    arms = {decoder: partial(decode, path) for decoder, decode in DECODERS.items()}
    taken = in_turns(arms, rounds)
    per_frame = {
        decoder: 1000 * over_rounds(values).value / counts[decoder]
        for decoder, values in taken.items()
    }
    note = ", ".join(f"{decoder} {ms:.2f}" for decoder, ms in per_frame.items()) + " ms a frame"
    return {
        f"{name}_pyav": ratio(taken["plain pyav"], taken["posemill"]).noted(note),
        f"{name}_opencv": ratio(taken["opencv"], taken["posemill"]).noted(note),
    }


def write_large(source: Path, target: Path, most: int = 120) -> None:
    """Write the first frames of a clip as MPEG-4 of 1280 x 720 in an AVI."""
    with open_video(source) as video, av.open(str(target), "w") as container:
        stream = container.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = 1280, 720, "yuv420p"
        stream.bit_rate = 4_000_000
        for _, pixels in zip(range(most), video, strict=False):
            large = cv2.resize(pixels, (1280, 720)).astype(np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(large, format="rgb24")))
        container.mux(stream.encode())


def main() -> None:
    """Measure each video and print."""
    parser = make_parser(__doc__)
    parser.add_argument("videos", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep-memory", action="store_true", help="glibc only; see above")
    options = parser.parse_args()
    cv2.setNumThreads(1)
    if options.keep_memory:
        library = ctypes.CDLL(None)
        library.mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD
        library.mallopt(-1, 256 << 20)  # M_TRIM_THRESHOLD
    with tempfile.TemporaryDirectory() as scratch:
        videos = {path.name: path for path in options.videos}
        if not videos:
            videos = {"small_mp4": ensure_media("carphone"), "large_avi": Path(scratch, "720.avi")}
            write_large(videos["small_mp4"], videos["large_avi"])
        found: dict[str, Measured] = {}
        for name, path in videos.items():
            found |= measure(name, path, options.rounds)
    report(found, as_json=options.json)


if __name__ == "__main__":
    main()
