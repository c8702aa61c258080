"""Where the frames of each clip go below the output folder: a folder of its own, or a pack."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from posemill.decoders import open_video
from posemill.decoders.opening import TargetSize
from posemill.decoders.stream_pyav import scaled_wh
from posemill.errors import DecodeError, RunError
from posemill.files import atomic_path, safe_parts
from posemill.records import Clip
from posemill.runs.frame_index import INDEX_NAME
from posemill.runs.manifest import LEDGER_NAME, LOCK_NAME, LOGS_NAME, MANIFEST_NAME
from posemill.sources.reading import read_clip

PACKS_NAME = "packs"
_PLACES_NAME = "places.csv"
_OWN_NAMES = {INDEX_NAME, LEDGER_NAME, LOCK_NAME, LOGS_NAME, MANIFEST_NAME, PACKS_NAME}
PACK_BYTES = 1 << 30  # a pack takes no more clips beyond it


def clip_parts(clip: Clip) -> list[str]:
    """Return the names of the folders that lead to a clip's pictures, the split's first.

    Clips of no split lie directly in the output, as in the source they came from.
    """
    parts = [] if clip.split == "all" else safe_parts(clip.split)
    parts += safe_parts(clip.clip_id)
    # Hidden folders are not looked into, and ours are no clips.
    parts = [f"_{part}" if part.startswith(".") else part for part in parts]
    return [f"{parts[0]}_", *parts[1:]] if parts[0] in _OWN_NAMES else parts


def check_parts_differ(clips: Iterable[Clip]) -> None:
    """Raise where two clips would have the same folder."""
    seen: dict[str, Clip] = {}
    for clip in clips:
        folder = "/".join(clip_parts(clip))
        if folder in seen:
            raise RunError(
                "the clips {clip_id!r} and {clip_id_2!r} would both be written to the folder "
                "{folder!r}; rename one of them",
                clip_id=seen[folder].clip_id,
                clip_id_2=clip.clip_id,
                folder=folder,
            )
        seen[folder] = clip


@dataclass(frozen=True)
class PackPlace:
    """Where a clip lies in the packs: room for `num_frames` frames from `offset` on, in bytes."""

    pack: str
    offset: int
    num_frames: int
    width: int
    height: int

    @property
    def frame_bytes(self) -> int:
        """What one frame takes."""
        return self.width * self.height * 3


def plan_places(clips: Sequence[Clip], decoder: str, size: TargetSize) -> list[PackPlace | None]:
    """Return the place of each clip, one behind the other; None for one that cannot be read.

    All places are known before the first frame: whoever writes what when, the packs are the same.
    """
    places: list[PackPlace | None] = []
    number, offset = 0, 0
    for clip in clips:
        size_wh = _size_of(clip, decoder, size) if clip.num_frames else None
        if size_wh is None or clip.num_frames is None:
            places.append(None)
            continue
        place = PackPlace(f"{number:06d}.rgb", offset, clip.num_frames, *size_wh)
        places.append(place)
        offset += place.num_frames * place.frame_bytes
        if offset >= PACK_BYTES:
            number, offset = number + 1, 0
    return places


def _size_of(clip: Clip, decoder: str, size: TargetSize) -> tuple[int, int] | None:
    """Return width and height of a clip's frames as they will be written; None without any."""
    if isinstance(size, tuple):
        return size
    if clip.kind != "video":  # the first picture that can be read decides
        frames = (frame.content for frame in read_clip(clip))
        first = next((frame for frame in frames if not isinstance(frame, DecodeError)), None)
        return None if first is None else scaled_wh((first.shape[1], first.shape[0]), size)
    try:
        with open_video(
            clip.path,
            decoder=decoder,
            start_seconds=clip.start_seconds,
            end_seconds=clip.end_seconds,
            target_size=size,
        ) as video:
            return video.size_wh
    except DecodeError:
        return None


def write_places(folder: Path, places: Sequence[PackPlace | None]) -> None:
    """Write the places of all clips, by their number."""
    (folder / PACKS_NAME).mkdir(exist_ok=True)
    names = [each.name for each in fields(PackPlace)]
    with (
        atomic_path(folder / PACKS_NAME / _PLACES_NAME) as temporary,
        temporary.open("w", encoding="utf-8", newline="") as handle,
    ):
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(["clip_no", *names])
        for clip_no, place in enumerate(places, start=1):
            if place is not None:
                writer.writerow([clip_no, *astuple(place)])


def read_places(folder: Path) -> dict[int, PackPlace]:
    """Return the place of each clip that has one, by its number.

    Raises:
        RunError: The file is missing or broken: without it nobody knows where clips begin.
    """
    path = folder / PACKS_NAME / _PLACES_NAME
    try:
        with path.open(encoding="utf-8", newline="") as handle:
            rows = list(csv.reader(handle))[1:]
        return {
            int(clip_no): PackPlace(pack, *map(int, numbers)) for clip_no, pack, *numbers in rows
        }
    except (OSError, ValueError, TypeError) as error:
        raise RunError(
            "{path} cannot be read: {error}; it says where clips lie in the packs: put back "
            "a copy of it, or choose another folder",
            path=path,
            error=error,
        ) from error
