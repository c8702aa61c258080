"""`posemill visualize`: sampled frames as pictures and contact sheets, sampled clips as movies."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from posemill.clips.inputs import ClipInput, ClipName, Outline
from posemill.errors import PosemillError
from posemill.formats.shared.folders import frame_names, picture_folder, place_of
from posemill.inspection.drawing import frame_picture
from posemill.inspection.drawing.movies import write_movie
from posemill.inspection.drawing.originals import Originals
from posemill.inspection.drawing.picture_files import safe_path, write_picture, writing
from posemill.inspection.drawing.strokes import pose_maps
from posemill.messages import Message
from posemill.outputs import Outputs
from posemill.plugins import hint
from posemill.records import Frame, PoseClip

_SHEET_ENDING = "_contact_sheet.png"
_SHEET_CELLS = 60  # at most on one sheet: more are no longer looked at


def draw_gallery(
    material: ClipInput,
    out: Path,
    *,
    originals: Originals,
    num_samples: int | None = 10,
    clip_ids: Iterable[str] | None = None,
    seed: int = 0,
    video: str | None = None,
    style: str = "keypoints",
    overwrite: bool = False,
) -> Iterator[Path]:
    """Write pictures below the folder `out`; yield the paths as they are written.

    `num_samples` are frames of each split, or with `video` (`mp4`, `gif`) clips as movies; None for
    all. The style is `keypoints` on the pictures, or skeletons on black as `openpose` draws them.
    """
    outlines: Iterable[Outline] = material.outlines()
    if clip_ids is not None:
        wanted, outlines = set(clip_ids), list(outlines)
        known = sorted({outline.clip_id for outline in outlines})
        for clip_id in sorted(wanted.difference(known)):
            near = hint(clip_id, known) or Message("; posemill view --detailed lists them")
            template = "{path} has no clip {clip_id!r}{near}"
            raise PosemillError(template, path=material.path, clip_id=clip_id, near=near)
        outlines = [outline for outline in outlines if outline.clip_id in wanted]
    chosen = choose_frames(outlines, num_samples, seed)
    if not chosen:
        template = "{path}: no frames to draw; what failed, and why: posemill view {path!q}"
        raise PosemillError(template, path=material.path)
    outputs = Outputs(material.path, overwrite=overwrite)
    gallery = _Gallery(material, chosen, out, originals, outputs)
    if video is not None:
        yield from gallery.movies(video, is_openpose=style == "openpose")
    elif style == "openpose":
        yield from gallery.maps()
    else:
        yield from gallery.samples()


def choose_frames(
    outlines: Iterable[Outline], num_samples: int | None, seed: int
) -> dict[ClipName, list[int]]:
    """Return, by clip, rows drawn at random: `num_samples` a split; all rows for None.

    Clips are drawn first and then a frame of each, so that short clips are seen too; a second
    frame of a clip comes only when every clip has one. The same seed gives the same frames,
    whatever the order of the clips.
    """
    lengths = {(each.split, each.clip_id): each.num_frames for each in outlines if each.num_frames}
    if num_samples is None:
        return {name: list(range(length)) for name, length in lengths.items()}
    by_split: dict[str, list[tuple[str, int]]] = {}
    for (split, clip_id), length in lengths.items():
        by_split.setdefault(split, []).append((clip_id, length))
    chosen: dict[ClipName, list[int]] = {}
    for split, clips in by_split.items():
        rng = np.random.default_rng([seed, zlib.crc32(split.encode("utf-8", "replace"))])
        clips.sort()
        order = [clips[number] for number in rng.permutation(len(clips))]
        rounds = range(max(length for _, length in order))
        turns = (clip for number in rounds for clip in order if number < clip[1])
        for (clip_id, length), count in Counter(islice(turns, num_samples)).items():
            chosen[split, clip_id] = sorted(rng.choice(length, count, replace=False).tolist())
    return chosen


@dataclass(frozen=True)
class _Gallery:
    """The pictures of chosen rows of clips, below a folder."""

    material: ClipInput
    chosen: dict[ClipName, list[int]]
    out: Path
    originals: Originals
    outputs: Outputs

    def samples(self) -> Iterator[Path]:
        """Write a PNG for every chosen frame and a contact sheet per split; yield the paths."""
        splits = dict.fromkeys(split for split, _ in self.chosen)
        sheets = {split: safe_path(self.out, split, suffix=_SHEET_ENDING) for split in splits}
        for path in sheets.values():
            self.outputs.claim_file(path)
        cells: dict[str, list[frame_picture.Cell]] = {}
        part_names: Sequence[str] = ()
        for clip in self.material.pick(self.chosen):
            part_names = clip.skeleton.part_names
            sheet = cells.setdefault(clip.split, [])
            for row, frame in self.originals.frames(clip, self.chosen[clip.split, clip.clip_id]):
                number = int(clip.frame_indices[row])
                ending = f"_frame{number:06d}.png"
                path = safe_path(self.out, clip.split, clip.clip_id, suffix=ending)
                write_picture(path, frame_picture.draw(frame, clip, row), self.outputs)
                yield path
                if len(sheet) < _SHEET_CELLS:
                    caption = f"{clip.clip_id}  {number}"
                    sheet.append(frame_picture.draw_cell(frame, clip, row, caption=caption))
        for split, sheet in cells.items():
            title = f"{split}: {len(sheet)} frames"
            picture = frame_picture.contact_sheet(sheet, part_names=part_names, title=title)
            write_picture(sheets[split], picture, self.outputs)
            yield sheets[split]

    def movies(self, kind: str, *, is_openpose: bool) -> Iterator[Path]:
        """Write the chosen clips as movies, and a contact sheet of each; yield the paths.

        Of skeletons on black nothing else is written: the folder is what a generator reads.
        """
        for clip in self.material.pick(self.chosen):
            path = safe_path(self.out, clip.split, clip.clip_id, suffix=f".{kind}")
            sheet_path = safe_path(self.out, clip.split, clip.clip_id, suffix=_SHEET_ENDING)
            cells: list[frame_picture.Cell] = []
            frames = self._drawn(clip, cells)
            if is_openpose:
                frames = (picture for _, picture in self._maps(clip, range(len(clip))))
            else:
                self.outputs.claim_file(sheet_path)
            with self.outputs.writing_file(path), writing(path):
                write_movie(path, frames, kind=kind, fps=clip.fps)
            yield path
            if not is_openpose:
                write_picture(sheet_path, frame_picture.clip_sheet(clip, cells), self.outputs)
                yield sheet_path

    def maps(self) -> Iterator[Path]:
        """Write the skeletons of the chosen frames on black, one PNG a picture; yield the paths.

        Folders and names are those of the pictures, as `--to txt` has them.
        """
        taken: set[Path] = set()
        for clip in self.material.pick(self.chosen):
            files = frame_names(clip.image_paths, clip.frame_indices)
            folder = picture_folder(clip, self.material.pictures_root)
            for row, picture in self._maps(clip, self.chosen[clip.split, clip.clip_id]):
                path = safe_path(self.out, *filter(None, [folder]), files[row], suffix=".png")
                if path in taken:  # x.png after x.jpg, both clips of their own
                    path = safe_path(self.out, place_of(clip), suffix=".png")
                taken.add(path)
                write_picture(path, picture, self.outputs)
                yield path

    def _maps(self, clip: PoseClip, rows: Sequence[int]) -> Iterator[tuple[int, Frame]]:
        for row, picture in pose_maps(clip, rows):
            self.originals.on_frame()
            yield row, picture

    def _drawn(self, clip: PoseClip, cells: list[frame_picture.Cell]) -> Iterator[Frame]:
        """Yield every frame drawn, and keep some of them as cells on the way."""
        kept = set(frame_picture.spread_rows(clip))
        for row, frame in self.originals.frames(clip, range(len(clip))):
            if row in kept:
                cells.append(frame_picture.draw_cell(frame, clip, row))
            yield frame_picture.draw(frame, clip, row)
