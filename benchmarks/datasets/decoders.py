"""Frames out of videos: posemill's usual decoder against other libraries, CPU time of one thread.

    python -m benchmarks.datasets.decoders [--against opencv | torchcodec decord] [--rounds 5]
        [--frames 400] [--videos FOLDER] [--json]

The demo's clip, forwards and backwards, as H.264 of 10 s at 340 x 256 and 1280 x 720 with a key
frame every 12 or 250 frames, and as MPEG-4 in an AVI. `sparse`: open the file and take 8 frames
spread over it, with the place of its frames known from an earlier visit (`kept`) or not (`first`:
the file has a new name every time). `all`: every frame in RGB, OpenCV's brought into that order.
Libraries take turns; before that, the frames of all are compared. Above 1, posemill is faster.
`all_bound` is what no reader on FFmpeg can pass: OpenCV's time by that of decoding every frame
without making pixels of it. `--videos` keeps the clips for the next run.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np

from benchmarks.shared.measuring import (
    Measured,
    in_turns,
    make_parser,
    not_here,
    over_rounds,
    ratio,
    report,
    say,
)
from posemill.decoders import find_decoder, open_video
from posemill.errors import MissingExtraError
from posemill.records import Frame
from posemill.weights.pull import ensure_media

SIZES = {"340": (340, 256), "720": (1280, 720)}
GROUPS = (12, 250)
FRAMES_A_SECOND = 40
SAMPLES = 8
_serial = count()


def read_with_opencv(path: Path, wanted: set[int] | None = None) -> list[Frame]:
    """Return the wanted frames after reading all; without `wanted` all are made RGB, none kept."""
    capture = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
    kept: list[Any] = []
    for number in count():
        is_there, frame = capture.read()
        if not is_there:
            break
        if wanted is None:
            frame = cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)
        elif number in wanted:
            kept.append(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))
    capture.release()
    return kept


def read_with_torchcodec(path: Path, wanted: list[int]) -> list[Frame]:
    """Return frames by their numbers, in the mode that finds the right ones."""
    from torchcodec.decoders import VideoDecoder

    decoder = VideoDecoder(
        str(path), num_ffmpeg_threads=1, seek_mode="exact", dimension_order="NHWC"
    )
    return list(decoder.get_frames_at(wanted).data.numpy())


def read_with_decord(path: Path, wanted: list[int]) -> list[Frame]:
    """Return frames by their numbers."""
    import decord

    return list(decord.VideoReader(str(path), num_threads=1).get_batch(wanted).asnumpy())


def read_with_posemill(path: Path, wanted: list[int]) -> list[Frame]:
    """Return frames by their numbers; where the file was seen before, its index is known."""
    with open_video(path, threads=1) as video:
        return video.frames_at(wanted)


def read_under_new_name(path: Path, wanted: list[int]) -> list[Frame]:
    """Return frames by their numbers of a file that was never seen."""
    name = path.with_name(f"{next(_serial)}-{path.name}")
    os.link(path, name)
    try:
        return read_with_posemill(name, wanted)
    finally:
        name.unlink()


def read_all_with_posemill(path: Path) -> None:
    """Decode every frame."""
    with open_video(path, threads=1) as video:
        for _frame in video:
            pass


def decode_all(path: Path) -> None:
    """Decode every frame, and make no pixels."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        for _frame in container.decode(stream):
            pass


def measure_sparse(path: Path, others: list[str], options: Any) -> dict[str, Measured]:
    """Return the ratios of the others' time to ours, by `first_opencv` and the like."""
    step = options.frames // SAMPLES
    wanted = list(range(step // 2, options.frames, step))
    known: dict[str, Callable[[], list[Frame]]] = {
        "opencv": partial(read_with_opencv, path, set(wanted)),
        "torchcodec": partial(read_with_torchcodec, path, wanted),
        "decord": partial(read_with_decord, path, wanted),
    }
    arms: dict[str, Callable[[], list[Frame]]] = {
        "first": partial(read_under_new_name, path, wanted),
        "kept": partial(read_with_posemill, path, wanted),
        **{name: known[name] for name in others},
    }
    frames = {name: arm() for name, arm in arms.items()}
    for name, got in frames.items():
        if len(got) != SAMPLES or not all(map(np.array_equal, got, frames["first"])):
            raise SystemExit(f"{path.name}: the frames of {name} are not posemill's")
    taken = in_turns(arms, options.rounds)
    return _ratios(taken, ("first", "kept"), others, scale=1000, unit="ms a clip")


def measure_all(path: Path, options: Any) -> dict[str, Measured]:
    """Return the ratio of OpenCV's time for every frame to ours, and to decoding alone."""
    arms: dict[str, Callable[[], Any]] = {
        "all": partial(read_all_with_posemill, path),
        "bound": partial(decode_all, path),
        "opencv": partial(read_with_opencv, path),
    }
    taken = in_turns(arms, options.rounds)
    scale = 1000 / options.frames
    return _ratios(taken, ("all", "bound"), ["opencv"], scale=scale, unit="ms a frame")


def _ratios(
    taken: Mapping[str, list[float]],
    ours: tuple[str, ...],
    others: list[str],
    *,
    scale: float,
    unit: str,
) -> dict[str, Measured]:
    shown = (f"{name} {scale * over_rounds(each).value:.3g}" for name, each in taken.items())
    note = f"{', '.join(shown)} {unit}"
    return {
        f"{our}_{other}": ratio(taken[other], taken[our]).noted(note)
        for our in ours
        for other in others
    }


def write_clip(
    source: Path, target: Path, frames: int, *, codec: str, options: dict[str, str]
) -> None:
    """Write a clip, whose name begins with its size, unless it is there."""
    if target.is_file():
        return
    say(f"writing {target.name}")
    size_wh = SIZES[target.name[:3]]
    with open_video(source) as video:
        pictures = list(video)
    there_and_back = pictures + pictures[-2:0:-1]
    temporary = target.with_name(f"part-{target.name}")
    with av.open(str(temporary), "w") as container:
        stream: Any = container.add_stream(codec, rate=FRAMES_A_SECOND, options=options)
        stream.width, stream.height = size_wh
        stream.pix_fmt, stream.bit_rate = "yuv420p", size_wh[0] * size_wh[1] * 4
        for number in range(frames):
            pixels = cv2.resize(there_and_back[number % len(there_and_back)], size_wh)
            frame = av.VideoFrame.from_ndarray(pixels.astype(np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    temporary.replace(target)


def measure(source: Path, folder: Path, options: Any) -> dict[str, Measured]:
    """Return all ratios, by `sparse_340_12_first_opencv` and the like."""
    found: dict[str, Measured] = {}

    def keep(name: str, measured: dict[str, Measured]) -> None:
        found.update({f"{name}_{key}": each for key, each in measured.items()})

    for size in SIZES:
        for group in GROUPS:
            settings = {"g": str(group), "preset": "fast", "threads": "1"}
            h264 = folder / f"{size}-{group}.mp4"
            write_clip(source, h264, options.frames, codec="libx264", options=settings)
            keep(f"sparse_{size}_{group}", measure_sparse(h264, options.against, options))
        if "opencv" in options.against:
            mpeg4 = folder / f"{size}.avi"
            write_clip(source, mpeg4, options.frames, codec="mpeg4", options={})
            keep(f"h264_{size}", measure_all(h264, options))
            keep(f"mpeg4_{size}", measure_all(mpeg4, options))
    return found


def main() -> None:
    """Write the clips, measure, print."""
    parser = make_parser(__doc__)
    parser.add_argument(
        "--against", nargs="+", default=["opencv"], choices=["opencv", "torchcodec", "decord"]
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--frames", type=int, default=400)
    parser.add_argument("--videos", type=Path)
    options = parser.parse_args()
    cv2.setNumThreads(1)
    try:
        for name in options.against:
            find_decoder(name)
    except MissingExtraError as error:
        not_here(str(error))
    if "torchcodec" in options.against:
        import torch

        torch.set_num_threads(1)  # its idle threads wait by spinning, which is CPU time too
    source = ensure_media("carphone")
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["POSEMILL_CACHE"] = scratch  # not the user's: every new name leaves an index
        folder = options.videos or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        found = measure(source, folder, options)
    report(found, as_json=options.json)


if __name__ == "__main__":
    main()
