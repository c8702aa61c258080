"""Where the frames of each clip go below the output folder: a folder of its own, or a pack."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from posemill.decoders.opening import TargetSize
from posemill.decoders.stream_pyav import scaled_wh
from posemill.errors import DecodeError, RunError
from posemill.files import safe_parts
from posemill.records import Clip
from posemill.runs.frame_index import INDEX_NAME, IndexedClip, read_index, write_index
from posemill.runs.manifest import LEDGER_NAME, LOCK_NAME, LOGS_NAME, MANIFEST_NAME
from posemill.sources.reading import read_clip

PACKS_NAME = "packs"
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


def plan_packs(folder: Path, clips: Sequence[Clip], decoder: str, size: TargetSize) -> None:
    """Write the place of each clip, one behind the other; one that cannot be read has none.

    All places are known before the first frame: whoever writes what when, the packs are the same.
    """
    packs, number, offset = folder / PACKS_NAME, 0, 0
    packs.mkdir(exist_ok=True)
    places: list[IndexedClip] = []
    for clip_no, clip in enumerate(clips, start=1):
        size_wh = _size_of(clip, decoder, size) if clip.num_frames else None
        if size_wh is None or clip.num_frames is None:
            continue
        place = IndexedClip(
            packs / f"{number:06d}.rgb",
            clip.clip_id,
            clip.split,
            None,
            "rgb",
            offset,
            clip.num_frames,
            *size_wh,
            extra={"clip_no": str(clip_no)},
        )
        places.append(place)
        offset += place.num_frames * place.width * place.height * 3
        if offset >= PACK_BYTES:
            number, offset = number + 1, 0
    write_index(packs, places)


def _size_of(clip: Clip, decoder: str, size: TargetSize) -> tuple[int, int] | None:
    """Return width and height of a clip's frames, as the first that can be read says."""
    if isinstance(size, tuple):
        return size
    frames = (frame.content for frame in read_clip(clip, decoder=decoder))
    first = next((frame for frame in frames if not isinstance(frame, DecodeError)), None)
    return None if first is None else scaled_wh((first.shape[1], first.shape[0]), size)


def read_packs(folder: Path) -> dict[int, IndexedClip]:
    """Return the place of each clip that has one, by its number."""
    path = folder / PACKS_NAME / INDEX_NAME
    try:
        return {int(place.extra["clip_no"]): place for place in read_index(path)}
    except (RunError, ValueError, KeyError) as error:
        raise RunError(
            "{path} cannot be read: {error}; it says where clips lie in the packs: put back "
            "a copy of it, or choose another folder",
            path=path,
            error=error,
        ) from error
