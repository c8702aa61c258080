"""Pictures, movies and files of clips, made in a process of its own: see `children`."""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path
from typing import Any

from posemill.files import folder_kind
from posemill.web.library import ClipAddress, Entry

MOST_FILE_FRAMES = 20_000
FILE_KINDS = ("mp4", "pose", "npz")


@lru_cache(maxsize=4)
def _originals(folder: Path, mark: int) -> Any:
    from dataclasses import asdict

    from posemill.inspection.drawing.originals import Originals
    from posemill.runs.manifest import Manifest

    facts = asdict(Manifest.read(folder)) if folder_kind(folder) == "extraction" else {}
    return Originals(facts, follows_links=False)


def _originals_of(entry: Entry) -> Any:
    # After a while it is looked for anew: a source may grow.
    return _originals(entry.folder, int(time.monotonic() // 60))


def read_frames(address: ClipAddress, start: int, count: int, side: int) -> list[bytes]:
    """Return frames as JPEG, empty where the original is gone; at most `side` pixels long."""
    from posemill.inspection.drawing.picture_files import jpeg_bytes
    from posemill.web.clip_data import read_window

    clip = read_window(address, start, count)
    frames = _originals_of(address.entry).frames(clip, range(len(clip)))
    return [b"" if frame is None else jpeg_bytes(frame, longest=side) for _, frame in frames]


def find_video(address: ClipAddress) -> Path:
    """Return where the video of a clip is; an error where it is not below the run's sources."""
    path: Path = _originals_of(address.entry).video_path(address.split, address.clip_id)
    return path


def write_clip(address: ClipAddress, kind: str, target: Path) -> int:
    """Write a clip as a movie or in a format of keypoints; return how many frames it has."""
    from posemill.formats import get_format
    from posemill.formats.shared.contract import Recipe
    from posemill.inspection.drawing.frame_picture import draw
    from posemill.inspection.drawing.movies import write_movie
    from posemill.web.clip_data import play_rate, read_whole

    clip = read_whole(address, MOST_FILE_FRAMES)
    if kind != "mp4":
        get_format(kind).write([clip], target, recipe=Recipe())
        return len(clip)
    frames = _originals_of(address.entry).frames(clip, range(len(clip)))
    pictures = (draw(frame, clip, row) for row, frame in frames)
    return write_movie(target, pictures, kind="mp4", fps=play_rate(clip.fps))
