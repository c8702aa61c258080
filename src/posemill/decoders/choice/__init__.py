"""`--decoder auto`: the quickest one for a kind of file, as `posemill bench decode` measured it.

What was measured is kept in the cache folder, by the kind of file and how it was read. Only a
decoder whose frames were those of pyav is ever taken, so a choice changes no number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from posemill.decoders import find_decoder, open_video
from posemill.decoders.opening import MAX_PIXELS, StrPath
from posemill.decoders.video_pyav import PyavReader
from posemill.errors import ConfigError, DecodeError, MissingExtraError
from posemill.files import atomic_path, cache_folder
from posemill.messages import Message

AUTO, USUAL = "auto", "pyav"
# How a video is read: every frame, or so many of them.
ACCESSES = ("all", "8", "32")
_SIZES = ((400, "small"), (800, "medium"))  # the shorter side, at most
_PACKAGES = {
    "pyav": ("av",),
    "opencv": ("opencv-python", "opencv-python-headless"),
    "torchcodec": ("torchcodec",),
    "decord": ("decord2",),
}
_FORMAT = 1


class Choice(NamedTuple):
    """What `auto` came to, and why in a few words."""

    decoder: str
    why: str


def kind_of(path: StrPath) -> str:
    """Return the kind of a video that decides which decoder is quickest: `h264 small`.

    Raises:
        DecodeError: It is no video that can be read.
    """
    whole: dict[str, Any] = {"start_seconds": 0.0, "end_seconds": None, "max_pixels": MAX_PIXELS}
    with PyavReader(path, threads=1, **whole) as video:
        side = min(video.size_wh)
        return f"{video.codec} {next((name for most, name in _SIZES if side <= most), 'large')}"


def memory_path() -> Path:
    """Return the file of what was measured."""
    return cache_folder() / "decoders.json"


def remember(winners: Mapping[str, Mapping[str, str]]) -> None:
    """Keep the quickest decoder of some kinds of files, by how they are read."""
    known = _read()
    for kind, by_access in winners.items():
        found = {
            access: {"decoder": name, "version": version_of(name)}
            for access, name in by_access.items()
        }
        known[kind] = {**known.get(kind, {}), **found}
    path = memory_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        text = json.dumps({"format": _FORMAT, "kinds": known}, indent=1, sort_keys=True)
        temporary.write_text(text + "\n", encoding="utf-8")


def choose(paths: Iterable[StrPath], access: str) -> Choice:
    """Return the decoder for these videos: the one measured for their kind, if it opens them all.

    Args:
        paths: Videos; those that cannot be read are left to pyav's reasons.
        access: One of `ACCESSES`.
    """
    readable: list[StrPath] = []
    kinds: dict[str, str | None] = {}
    for path in paths:
        try:
            kind = kind_of(path)
        except DecodeError:
            continue
        readable.append(path)
        if kind not in kinds:
            kinds[kind] = _winner(kind, access)
    names = sorted({name for name in kinds.values() if name is not None})
    unknown = next((kind for kind, name in kinds.items() if name is None), None)
    if not kinds:
        why = Message("there is no video to choose by")
    elif unknown is not None:
        template = "nothing was measured for {unknown}: posemill bench decode VIDEO"
        why = Message(template, unknown=unknown)
    elif len(names) > 1:
        template = "{names} are each the quickest for some of these files"
        why = Message(template, names=", ".join(names))
    elif names[0] != USUAL and (refusal := _first_refusal(names[0], readable)):
        why = Message("{names} is quicker, but {why}", names=names[0], why=refusal)
    else:
        template = "the quickest for {kinds} by posemill bench decode"
        return Choice(names[0], Message(template, kinds=", ".join(kinds)))
    return Choice(USUAL, why)


def settle_for_extraction(decoder: str) -> str:
    """Return the decoder that `auto` or a name comes to for keypoints.

    It is always pyav: only that one stops where a video is damaged, and says so.
    """
    return USUAL if decoder == AUTO else decoder


def access_of(num_frames: int | None) -> str:
    """Return which of `ACCESSES` is nearest to reading so many frames of a clip; None for all."""
    return "all" if num_frames is None else "8" if num_frames <= 16 else "32"


def version_of(decoder: str) -> str:
    """Return the version of a decoder's package; empty where it is not known."""
    for package in _PACKAGES.get(decoder, ()):
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return ""


def _winner(kind: str, access: str) -> str | None:
    """Return what was measured for a kind; None if nothing was, or with another version."""
    found = _read().get(kind, {}).get(access)
    if not isinstance(found, dict) or not isinstance(name := found.get("decoder"), str):
        return None
    try:
        find_decoder(name)
    except (ConfigError, MissingExtraError):
        return None
    return name if found.get("version") == version_of(name) else None


def _first_refusal(decoder: str, paths: Sequence[StrPath]) -> str:
    """Return why a decoder does not take one of some videos; empty if it takes all."""
    for path in paths:
        try:
            open_video(path, decoder=decoder).close()
        except DecodeError as error:
            return str(error)
    return ""


def _read() -> dict[str, Any]:
    try:
        content = json.loads(memory_path().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    is_ours = isinstance(content, dict) and content.get("format") == _FORMAT
    kinds = content.get("kinds") if is_ours else None
    if not isinstance(kinds, dict):
        return {}
    return {kind: found for kind, found in kinds.items() if isinstance(found, dict)}
