"""Sequential decoding: posemill against plain PyAV and OpenCV, CPU time on the same files.

    python benchmarks/decode.py VIDEO [VIDEO …] [--rounds 5]

All three decode every frame to RGB in one thread, file by file in turns, so that a busy machine
slows all of them, and all keep a frame until they have the next. Ratios above 1 mean that posemill
is faster.

In a loop that does nothing but decode, glibc gives the memory of each large frame back and asks for
it again, and the kernel clears it every time: up to a third of the time at 1280 x 720. With an
engine beside it this was not seen (the same faults with and without), so `--keep-memory` turns it
off here to compare the decoders alone.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import av
import cv2

from posemill.decoders import open_video


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


def measure(path: Path, rounds: int) -> dict[str, object]:
    """Return frames and the median CPU milliseconds per frame of each way."""
    seconds: dict[str, list[float]] = {name: [] for name in DECODERS}
    frames = {name: decode(path) for name, decode in DECODERS.items()}  # warms the page cache
    for number in range(rounds):
        names = list(DECODERS) if number % 2 else list(DECODERS)[::-1]
        for name in names:
            before = time.process_time()
            DECODERS[name](path)
            seconds[name].append(time.process_time() - before)
    row: dict[str, object] = {"video": path.name, "frames": frames["posemill"]}
    ours = statistics.median(seconds["posemill"])
    for name, values in seconds.items():
        if frames[name] != frames["posemill"]:
            row[name] = f"reads {frames[name]} frames"
            continue
        row[name] = round(1000 * statistics.median(values) / frames[name], 3)
        if name != "posemill":
            row[f"ratio to {name}"] = round(statistics.median(values) / ours, 2)
    return row


def main() -> None:
    """Measure each video and print a table, or JSON with --json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("videos", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep-memory", action="store_true", help="glibc only; see above")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    cv2.setNumThreads(1)
    if options.keep_memory:
        library = ctypes.CDLL(None)
        library.mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD
        library.mallopt(-1, 256 << 20)  # M_TRIM_THRESHOLD
    rows = [measure(path, options.rounds) for path in options.videos]
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    print(f"load {os.getloadavg()[0]:.1f}; CPU milliseconds per frame, median of {options.rounds}")
    for row in rows:
        print(", ".join(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
