"""`posemill visualize`: sampled frames as pictures and contact sheets, sampled clips as movies."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from posemill.clips.inputs import ClipInput, ClipName, Outline
from posemill.errors import PosemillError
from posemill.files import atomic_path
from posemill.formats.shared.folders import frame_names, picture_folder, place_of
from posemill.inspection.drawing.frame_picture import draw
from posemill.inspection.drawing.movies import write_movie
from posemill.inspection.drawing.originals import Originals
from posemill.inspection.drawing.picture_files import png_bytes, safe_path, writing
from posemill.inspection.drawing.pose_maps import pose_maps
from posemill.inspection.drawing.sheets import Cell, contact_sheet, draw_cell
from posemill.outputs import Outputs
from posemill.records import Frame, PoseClip

SHEET_FRAMES = 12  # of a whole clip's contact sheet
_SHEET_CELLS = 60  # at most on one sheet: more are no longer looked at


@dataclass(frozen=True)
class DrawRequest:
    """What to draw.

    Args:
        num_samples: Frames of each split; with `video`, clips of each split; None for all.
        clip_ids: Only these clips; None for all.
        seed: Another seed draws other samples.
        video: `mp4` or `gif` for whole clips as movies, None for single frames.
        style: `keypoints` on the pictures, or skeletons on black as `openpose` draws them.
    """

    num_samples: int | None = 10
    clip_ids: Sequence[str] | None = None
    seed: int = 0
    video: str | None = None
    style: str = "keypoints"


def draw_gallery(
    material: ClipInput,
    request: DrawRequest,
    out: Path,
    *,
    originals: Originals,
    overwrite: bool = False,
) -> Iterator[Path]:
    """Write what is asked for below the folder `out`; yield the paths as they are written."""
    outputs = Outputs(material.path, overwrite=overwrite)
    outlines: Iterable[Outline] = material.outlines()
    if request.clip_ids is not None:
        wanted = set(request.clip_ids)
        outlines = [each for each in outlines if each.clip_id in wanted]
        for clip_id in sorted(wanted - {each.clip_id for each in outlines}):
            raise PosemillError(
                "{path} has no clip {clip_id!r}; posemill view --detailed lists them",
                path=material.path,
                clip_id=clip_id,
            )
    chosen = choose_frames(outlines, request.num_samples, request.seed)
    if not chosen:
        raise PosemillError(
            "{path}: no frames to draw; what gave no keypoints, and why: posemill view {path!q}",
            path=material.path,
        )
    more: dict[str, Any] = {"kind": request.video, "originals": originals, "outputs": outputs}
    if request.style == "openpose":
        yield from draw_maps(material, chosen, out, **more)
    elif request.video is None:
        yield from draw_samples(material, chosen, out, originals=originals, outputs=outputs)
    else:
        yield from draw_movies(material, chosen, out, **more)


def choose_frames(
    outlines: Iterable[Outline], num_samples: int | None, seed: int
) -> dict[ClipName, list[int]]:
    """Return, by clip, rows drawn at random: `num_samples` a split, or all where there are fewer.

    With None all rows of all clips, in their order.

    Clips are drawn first and then a frame of each, so that short clips are seen too; a second
    frame of a clip comes only when every clip has one. The same seed gives the same frames,
    whatever the order of the clips.
    """
    if num_samples is None:
        return {
            (each.split, each.clip_id): list(range(each.num_frames))
            for each in outlines
            if each.num_frames
        }
    by_split: dict[str, list[tuple[str, int]]] = {}
    for outline in outlines:
        if outline.num_frames:
            by_split.setdefault(outline.split, []).append((outline.clip_id, outline.num_frames))
    chosen: dict[ClipName, list[int]] = {}
    for split, clips in by_split.items():
        rng = np.random.default_rng([seed, zlib.crc32(split.encode("utf-8", "replace"))])
        clips.sort()
        order = rng.permutation(len(clips))
        rounds, left = 0, num_samples
        while left and rounds < max(length for _, length in clips):
            for number in order:
                clip_id, length = clips[number]
                if left and rounds < length:
                    rows = chosen.setdefault((split, clip_id), [])
                    free = np.setdiff1d(np.arange(length), rows)
                    rows.append(int(rng.choice(free)))
                    left -= 1
            rounds += 1
    return {name: sorted(rows) for name, rows in chosen.items()}


def draw_samples(
    material: ClipInput,
    chosen: dict[ClipName, list[int]],
    out: Path,
    *,
    originals: Originals,
    outputs: Outputs,
) -> Iterator[Path]:
    """Write a PNG for every chosen frame and a contact sheet per split; yield the paths."""
    sheets = {split: safe_path(out, split, suffix="_contact_sheet.png") for split, _ in chosen}
    for path in sheets.values():
        outputs.claim_file(path)
    cells: dict[str, list[Cell]] = {}
    part_names: Sequence[str] = ()
    for clip in material.pick(chosen):
        part_names = clip.skeleton.part_names
        rows = chosen[clip.split, clip.clip_id]
        for row, frame in originals.frames(clip, rows):
            number = int(clip.frame_indices[row])
            path = safe_path(out, clip.split, clip.clip_id, suffix=f"_frame{number:06d}.png")
            write_picture(path, draw(frame, clip, row), outputs)
            yield path
            sheet = cells.setdefault(clip.split, [])
            if len(sheet) < _SHEET_CELLS:
                caption = f"{clip.clip_id}  {number}"
                sheet.append(draw_cell(frame, clip, row, caption=caption))
    for split, sheet in cells.items():
        title = f"{split}: {len(sheet)} frames"
        picture = contact_sheet(sheet, part_names=part_names, title=title)
        write_picture(sheets[split], picture, outputs)
        yield sheets[split]


def draw_movies(
    material: ClipInput,
    chosen: dict[ClipName, list[int]],
    out: Path,
    *,
    kind: str,
    originals: Originals,
    outputs: Outputs,
) -> Iterator[Path]:
    """Write every named clip as a movie, and a contact sheet of it; yield the paths."""
    for clip in material.pick(chosen):
        path = safe_path(out, clip.split, clip.clip_id, suffix=f".{kind}")
        sheet_path = safe_path(out, clip.split, clip.clip_id, suffix="_contact_sheet.png")
        outputs.claim_file(sheet_path)
        kept = set(spread_rows(clip))
        cells: list[Cell] = []
        with outputs.writing_file(path), writing(path):
            write_movie(path, _drawn(clip, originals, kept, cells), kind=kind, fps=_fps_of(clip))
        yield path
        write_picture(sheet_path, clip_sheet(clip, cells), outputs)
        yield sheet_path


def draw_maps(
    material: ClipInput,
    chosen: dict[ClipName, list[int]],
    out: Path,
    *,
    kind: str | None,
    originals: Originals,
    outputs: Outputs,
) -> Iterator[Path]:
    """Write the skeletons of the chosen frames on black, one PNG a picture; yield the paths.

    Folders and names are those of the pictures, as `--to txt` has them. With a `kind` of movie each
    chosen clip is one instead. Nothing else is written: the folder is what a generator reads.
    """
    taken: set[Path] = set()
    for clip in material.pick(chosen):
        if kind is not None:
            path = safe_path(out, clip.split, clip.clip_id, suffix=f".{kind}")
            frames = (frame for _, frame in pose_maps(clip, range(len(clip))))
            with outputs.writing_file(path), writing(path):
                write_movie(path, _told(frames, originals), kind=kind, fps=_fps_of(clip))
            yield path
            continue
        files = frame_names(clip.image_paths, clip.frame_indices)
        folder = picture_folder(clip, material.pictures_root)
        for row, picture in pose_maps(clip, chosen[clip.split, clip.clip_id]):
            path = safe_path(out, *filter(None, [folder]), files[row], suffix=".png")
            if path in taken:  # x.png after x.jpg, both clips of their own
                path = safe_path(out, place_of(clip), suffix=".png")
            taken.add(path)
            write_picture(path, picture, outputs)
            originals.on_frame()
            yield path


def _told(frames: Iterator[Frame], originals: Originals) -> Iterator[Frame]:
    for frame in frames:
        originals.on_frame()
        yield frame


def _fps_of(clip: PoseClip) -> float:
    return clip.fps if clip.fps and 0 < clip.fps <= 1000 else 25.0


def spread_rows(clip: PoseClip) -> list[int]:
    """Return the rows of a clip's contact sheet, from its first to its last."""
    count = min(SHEET_FRAMES, len(clip))
    return [int(row) for row in np.linspace(0, len(clip) - 1, count).round()]


def clip_sheet(clip: PoseClip, cells: Sequence[Cell]) -> Frame:
    """Return some drawn frames of one clip as a contact sheet."""
    title = f"{clip.clip_id}: {len(cells)} of {len(clip)} frames"
    return contact_sheet(cells, part_names=clip.skeleton.part_names, title=title)


def frame_cell(frame: Frame | None, clip: PoseClip, row: int) -> Cell:
    """Return a frame of a clip for its contact sheet."""
    return draw_cell(frame, clip, row, caption=f"frame {int(clip.frame_indices[row])}")


def _drawn(
    clip: PoseClip, originals: Originals, kept: set[int], cells: list[Cell]
) -> Iterator[Frame]:
    """Yield every frame drawn, and keep some of them as cells on the way."""
    for row, frame in originals.frames(clip, range(len(clip))):
        if row in kept:
            cells.append(frame_cell(frame, clip, row))
        yield draw(frame, clip, row)


def write_picture(path: Path, picture: Frame, outputs: Outputs) -> None:
    """Write a PNG, whole or not at all; folders are made."""
    data = png_bytes(picture)
    with outputs.writing_file(path), writing(path), atomic_path(path) as temporary:
        temporary.write_bytes(data)
