"""`posemill.visualize`, `report`, `compare`, `plot`: pictures of runs, exported files and clips."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from posemill.api.arguments import AnyPath, Names, Size, here, names_of, parse_size
from posemill.api.progress import is_notebook, show_progress, track
from posemill.clips.inputs import ClipInput, open_inputs
from posemill.errors import PosemillError
from posemill.files import mark_output
from posemill.inspection.comparison.measure import Comparison
from posemill.inspection.comparison.page import pixels_in_words, write_page
from posemill.inspection.comparison.pairs import Pairing
from posemill.inspection.drawing.frame_picture import draw
from posemill.inspection.drawing.gallery import (
    DrawRequest,
    clip_sheet,
    draw_gallery,
    frame_cell,
    spread_rows,
    write_picture,
)
from posemill.inspection.drawing.lettering import lacks_font
from posemill.inspection.drawing.originals import Originals
from posemill.inspection.drawing.showing import open_viewer, png_bytes
from posemill.inspection.report.build import measure_all, write_report
from posemill.outputs import Outputs, expect_folder
from posemill.records import Frame, PoseClip
from posemill.skeletons import full_name
from posemill.stores.reader import open_run
from posemill.terminal import counted


@dataclass(frozen=True)
class Drawn:
    """What was written, and what could not be drawn as it should be.

    Args:
        paths: The files.
        num_originals_gone: Frames drawn on a blank canvas, as their pictures cannot be read.
        notes: In words, what is not as it should be and what to do about it.
    """

    paths: tuple[Path, ...]
    num_originals_gone: int = 0
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.paths)

    def __iter__(self) -> Iterator[Path]:
        return iter(self.paths)


def visualize(
    run: AnyPath,
    out: AnyPath = "pictures",
    *,
    num_samples: int = 10,
    splits: Names = None,
    clips: Names = None,
    seed: int = 0,
    video: str | None = None,
    originals: AnyPath | None = None,
    from_format: str | None = None,
    size: Size = None,
    person: str | int = "all",
    style: str = "keypoints",
    all: bool = False,
    overwrite: bool = False,
    progress: bool | None = None,
) -> Drawn:
    """Draw sampled frames with contact sheets, or whole clips as movies; return the files.

    Args:
        run: A run, or a file of any format.
        out: Folder for the pictures.
        num_samples: Frames of each split; with `video`, clips of each split.
        splits: Only these; all by default.
        clips: Only these, by their ids.
        seed: Another seed draws other samples.
        video: `mp4` or `gif` for movies.
        originals: Folder of the original pictures or videos, where it is not the recorded one.
        from_format: See `posemill.view`, as are `size` and `progress`.
        size: Of pictures whose size a file does not say.
        person: Of several people in a frame: all, or the one that `prepare` would take.
        style: `keypoints` on the pictures with a legend, or `openpose`: skeletons on black in the
            colours that pose-driven generators expect, a file for each picture, folders as theirs.
        all: Every frame, or with `video` every clip, instead of samples.
        overwrite: Replace files that posemill did not write for this source; without it they
            stay, and the call is refused.
        progress: Bars on a terminal or a line in a notebook; False for none.
    """
    folder = here(out)
    expect_folder(folder, kind="what `visualize` writes")
    material = ClipInput(
        Path(run), format_name=from_format, size_wh=parse_size(size), splits=names_of(splits),
        person=person,
    )  # fmt: skip
    found = _originals(material.picture_facts(), originals)
    request = DrawRequest(
        num_samples=None if all else num_samples, clip_ids=names_of(clips), seed=seed, video=video,
        style=style,
    )  # fmt: skip
    is_free = folder.is_dir() and not any(folder.iterdir())
    with show_progress("drawing frames", progress=progress) as found.on_frame:
        paths = tuple(draw_gallery(material, request, folder, originals=found, overwrite=overwrite))
    if is_free:
        mark_output(folder)
    names = [part for path in paths for part in path.relative_to(folder).with_suffix("").parts]
    return Drawn(paths, found.num_gone, _notes(found, names))


def report(
    run: AnyPath,
    out: AnyPath = "report.html",
    *,
    splits: Names = None,
    originals: AnyPath | None = None,
    from_format: str | None = None,
    size: Size = None,
    overwrite: bool = False,
    progress: bool | None = None,
) -> Drawn:
    """Write one HTML file: presence, gaps, jumps, suspected swaps, the worst clips, failures.

    Args:
        run: A run, or a file of any format.
        out: The HTML file.
        splits: Only these; all by default.
        originals: See `visualize`.
        from_format: See `posemill.view`, as are `size` and `progress`.
        size: Of pictures whose size a file does not say.
        overwrite: See `visualize`.
        progress: Bars on a terminal or a line in a notebook; False for none.
    """
    outputs = Outputs(run, overwrite=overwrite)
    outputs.claim_file(here(out))
    material = ClipInput(
        Path(run), format_name=from_format, size_wh=parse_size(size), splits=names_of(splits)
    )
    total = material.num_frames
    clips = track(material.clips_so_far(), "measuring", total, len, progress=progress)
    quality = measure_all(clips)
    found = _originals(material.picture_facts(), originals)
    with show_progress("drawing frames", progress=progress) as found.on_frame:
        write_report(material, quality, Path(out), originals=found)
    outputs.record(Path(out))
    return Drawn((Path(out),), found.num_gone, _notes(found))


class Compared(dict[str, Any]):
    """How two runs of the same clips differ, as plain values; printed, a line for each part."""

    def __repr__(self) -> str:
        lines = [f"Compared {self['one']['path']} with {self['other']['path']}: "
                 f"{counted(self['num_clips'], 'clips')}, "
                 f"{counted(self['num_frames'], 'frames')}"]  # fmt: skip
        for split in self["splits"]:
            for name, part in split["parts"].items():
                far = [pixels_in_words(part[each]) for each in ("median", "p95", "max")]
                lines.append(f"  {split['split']} {name}: agree {part['agree']:.4f}; median "
                             f"{far[0]}, p95 {far[1]}, max {far[2]} px")  # fmt: skip
        return "\n".join(lines)


def compare(
    one: AnyPath,
    other: AnyPath,
    out: AnyPath | None = None,
    *,
    skeleton: str | None = None,
    splits: Names = None,
    originals: AnyPath | None = None,
    from_format: str | None = None,
    size: Size = None,
    overwrite: bool = False,
    progress: bool | None = None,
) -> Compared:
    """Return how two runs of the same clips differ: agreement and distance of every part.

    Args:
        one: A run, or a file of any format; distances are in pixels of its pictures.
        other: Another, of the same clips: of another engine, version, decoder, precision.
        out: An HTML file to write, with the worst frames drawn side by side.
        skeleton: What both are turned into; by default the one with most points of both.
        splits: Only these; all by default.
        originals: See `visualize`.
        from_format: See `posemill.view`, as are `size` and `progress`.
        size: Of pictures whose size a file does not say.
        overwrite: See `visualize`.
        progress: Bars on a terminal or a line in a notebook; False for none.
    """
    outputs = Outputs(one, other, overwrite=overwrite)
    if out is not None:
        outputs.claim_file(here(out))
    layout = None if skeleton is None else full_name(skeleton)
    first, second = open_inputs(
        [Path(one), Path(other)], format_name=from_format, size_wh=parse_size(size),
        splits=names_of(splits), person="main",
    )  # fmt: skip
    found = _originals(first.picture_facts(), originals)
    pairing = Pairing.of(first, second, layout)
    total = sum(pairing.one.num_frames[key] for key in pairing.common)
    pairs = track(pairing.clips(), "comparing", total, lambda pair: len(pair[0]), progress=progress)
    compared = Comparison(pairing).add_all(pairs)
    if out is not None:
        with show_progress("drawing frames", progress=progress) as found.on_frame:
            write_page(compared, Path(out), originals=found)
        outputs.record(Path(out))
    notes = [*_notes_on_pairs(compared), *_notes(found)]
    pages = {} if out is None else {"page": str(out)}
    return Compared(compared.to_dict() | pages | {"notes": notes})


def _notes_on_pairs(compared: Comparison) -> Iterator[str]:
    pairing = compared.pairing
    for side, num_frames in (
        (pairing.one, compared.frames_of_one),
        (pairing.other, compared.frames_of_other),
    ):
        path = side.material.path
        if only := pairing.only(side):
            first = ", ".join(map("/".join, only[:3])) + (" …" if len(only) > 3 else "")
            yield f"{counted(len(only), 'clips')} in {path} only, not compared: {first}"
        if num_frames:
            yield f"{counted(num_frames, 'frames')} of clips in both in {path} only, not compared"
    if compared.num_other_size:
        yield (
            f"{counted(compared.num_other_size, 'frames are')} of another size in the two; "
            f"distances are in pixels of {pairing.one.material.path}"
        )


def plot(clip: PoseClip, index: int | None = None, *, originals: AnyPath | None = None) -> Frame:
    """Return a picture, RGB, of one frame of a clip, or of up to twelve side by side.

    Args:
        clip: Of any skeleton.
        index: Row of the frame; None for a contact sheet.
        originals: Folder of the original pictures or videos, where it is not the one its run
            recorded; without any the canvas is blank.
    """
    if not len(clip):
        raise ValueError(f"clip {clip.clip_id!r} has no frames to draw")
    if index is not None and not -len(clip) <= index < len(clip):
        raise IndexError(f"clip {clip.clip_id!r} has {len(clip)} frames; there is none at {index}")
    facts: dict[str, Any] = {}
    with suppress(PosemillError):  # the run was moved: the clip is drawn on a blank canvas
        facts = asdict(open_run(clip.run_folder).manifest) if clip.run_folder else {}
    rows = spread_rows(clip) if index is None else [range(len(clip))[index]]
    frames = _originals(facts, originals).frames(clip, rows)
    if index is None:
        return clip_sheet(clip, [frame_cell(frame, clip, row) for row, frame in frames])
    ((row, frame),) = frames
    return draw(frame, clip, row)


def show(
    clip: PoseClip,
    index: int | None = None,
    *,
    path: AnyPath | None = None,
    originals: AnyPath | None = None,
    overwrite: bool = False,
) -> None:
    """Show what `plot` gives: in the notebook, or on the screen; or write it as a PNG.

    Args:
        clip: Of any skeleton.
        index: As in `plot`, as is `originals`.
        path: The PNG file to write, instead of showing it.
        originals: See `plot`.
        overwrite: Replace a file that is not a picture of this run.
    """
    picture = plot(clip, index, originals=originals)
    if path is not None:
        write_picture(Path(path), picture, Outputs(clip.run_folder or "", overwrite=overwrite))
    elif is_notebook():
        from IPython.display import Image, display

        display(Image(data=png_bytes(picture)))
    else:
        open_viewer(picture)


def _originals(facts: dict[str, Any], moved_to: AnyPath | None) -> Originals:
    return Originals.of(facts, moved_to=None if moved_to is None else Path(moved_to))


def _notes(originals: Originals, names: Iterable[str] = ()) -> tuple[str, ...]:
    notes = []
    if originals.num_unplaced:
        notes.append(
            f"{counted(originals.num_unplaced, 'frames')} of normalised keypoints drawn on a blank "
            "canvas: they have no place in the original pictures"
        )
    if originals.num_gone:
        total = originals.num_gone + originals.num_read
        notes.append(
            f"{originals.num_gone} of {total} original pictures could not be read, drawn on a "
            f"blank canvas; the first: {originals.first_reason}. If they were moved, name their "
            "folder by --originals"
        )
    if advice := lacks_font(names):
        notes.append(advice)
    return tuple(notes)
