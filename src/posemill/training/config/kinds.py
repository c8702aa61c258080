"""Which kind of data a path is: keypoints, video or both. Nothing heavy is imported for it."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import Any

from posemill.errors import ConfigError, ContentError
from posemill.places import uri_of
from posemill.tables import find_encoding, read_table

KEYPOINTS, VIDEO, TWO_STREAMS = "keypoints", "video", "two_streams"
AUTO = "auto"  # not looked at yet
OWN = "own"  # data and a model that a user gives to `fit`
KINDS = {
    KEYPOINTS: "posemill.training.tasks.keypoint_kind:KeypointKind",
    VIDEO: "posemill.training.tasks.video_kind:VideoKind",
    TWO_STREAMS: "posemill.training.tasks.two_stream_kind:TwoStreamKind",
}
_AND = " + "
_MOST_FOLDERS = 1000  # looked into for a video or a picture


def kind_of(data: str) -> str:
    """Return which of `KINDS` the path of a setting is.

    `video` are lists and folders of videos, and what `posemill frames` wrote. What is not there is
    `keypoints`, whose readers say what was expected.
    """
    if _AND in data:
        return TWO_STREAMS
    if not data or "{split}" in data or uri_of(data) is not None:  # videos have to be here
        return KEYPOINTS
    # Not above: `--help` asks for the settings of no data, and does without numpy.
    from posemill.decoders.opening import PICTURE_SUFFIXES, VIDEO_SUFFIXES, suffix_of

    path = Path(data)
    if path.is_file():
        is_video = suffix_of(path.name) in VIDEO_SUFFIXES or _is_list(path)
        return VIDEO if is_video else KEYPOINTS
    if not path.is_dir() or any(path.glob("*.npz")):
        return KEYPOINTS
    known = VIDEO_SUFFIXES | PICTURE_SUFFIXES
    if (path / "index.csv").is_file() and _is_list(path / "index.csv"):
        return VIDEO
    for _, _, names in islice(os.walk(path, followlinks=True), _MOST_FOLDERS):
        if any(suffix_of(name) in known for name in names):
            return VIDEO
    return KEYPOINTS


def join_streams(paths: Any) -> Any:
    """Return two paths of data as the one text that settings keep; one path as it is."""
    if not isinstance(paths, (list, tuple)):
        return paths
    if len(paths) != 2 or not all(isinstance(path, (str, os.PathLike)) for path in paths):
        raise ConfigError(
            "{--data}: expected one path, or keypoints and videos of the same clips, got {paths!r}",
            paths=paths,
        )
    return _AND.join(map(str, paths))


def absolute_data(data: str) -> str:
    """Return a path of data, or two of them, that is found from any folder; a URI stays."""
    paths = data.split(_AND)
    return _AND.join(path if uri_of(path) else str(Path(path.strip()).absolute()) for path in paths)


def paths_of_streams(data: str) -> tuple[str, str]:
    """Return the path of the keypoints and that of the videos, in whatever order they come."""
    paths = [path.strip() for path in data.split(_AND)]
    kinds = [kind_of(path) for path in paths]
    if sorted(kinds) != [KEYPOINTS, VIDEO]:
        raise ConfigError(
            "{--data}: expected keypoints and videos of the same clips, got {data}, "
            "which are {kinds}",
            data=data,
            kinds=" and ".join(kinds),
        )
    return paths[kinds.index(KEYPOINTS)], paths[kinds.index(VIDEO)]


def _is_list(path: Path) -> bool:
    """Return whether a file is a table that says where clips are."""
    if path.suffix.lower() not in (".csv", ".tsv", ".txt"):
        return False
    try:
        next(read_table(path, names=["path"], encoding=find_encoding(path) or "utf-8"), None)
        return True  # without a row, too: whoever reads it says so
    except (ContentError, OSError):
        return False
