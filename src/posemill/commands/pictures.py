"""`visualize`, `report`, `plot`, `show`: pictures of runs, exported files and clips."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from posemill.commands.arguments import AnyPath, Person, Reading, here
from posemill.commands.declaring import Command, Originals, Overwrite, RunOrFile, shown_by
from posemill.commands.printing import print_notes, say
from posemill.commands.progress import is_notebook, show_progress, track
from posemill.errors import PosemillError
from posemill.messages import Message
from posemill.outputs import Outputs, expect_folder
from posemill.settings import setting

if TYPE_CHECKING:
    from posemill.inspection.drawing.originals import Originals as OriginalFrames
    from posemill.records import Frame, PoseClip
    from posemill.runs.reader import Run

_WIDTH = 640  # pixels of the picture: some 60 kB in the notebook's file


@dataclass(frozen=True)
class Drawn:
    """What was written, and what could not be drawn as it should be.

    Args:
        paths: The files.
        num_originals_gone: Frames drawn on a blank canvas, as their pictures cannot be read.
        notes: What is not as it should be and what to do about it.
    """

    paths: tuple[Path, ...]
    num_originals_gone: int = 0
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.paths)

    def __iter__(self) -> Iterator[Path]:
        return iter(self.paths)

    def to_json(self) -> dict[str, Any]:
        """Return what `--json` prints."""
        return {"paths": self.paths, "num_originals_gone": self.num_originals_gone}


def visualize(
    run: RunOrFile,
    out: Annotated[AnyPath, setting("Folder for the pictures.")] = "pictures",
    *,
    num_samples: Annotated[
        int, setting("Frames of each split; with --video, clips of each split.", least=1)
    ] = 10,
    clips: Annotated[Iterable[str] | str | None, setting("Only these clips, by their ids.")] = None,
    seed: Annotated[int, setting("Seed of the random samples.", least=0)] = 0,
    video: Annotated[str | None, setting("Whole clips as movies.", choices=("mp4", "gif"))] = None,
    originals: Originals = None,
    person: Person = "all",
    style: Annotated[
        str,
        setting(
            "openpose: skeletons on black, as pose-driven image generators expect; one file per"
            " picture, in the same folders.",
            choices=("keypoints", "openpose"),
        ),
    ] = "keypoints",
    all: Annotated[bool, setting("Every frame; with --video, every clip.")] = False,
    overwrite: Overwrite = False,
    progress: bool | None = None,
    **reading: Annotated[Any, Reading],
) -> Drawn:
    """Draw sampled frames, with contact sheets, or with --video whole clips as movies.

    `progress` is bars on a terminal or a line in a notebook; False for none.
    """
    from posemill.inspection.drawing.gallery import draw_gallery

    folder = here(out)
    expect_folder(folder, kind="what `visualize` writes")
    material = Reading(**reading).open(run, person=person)
    frames = originals_of(material.picture_facts(), originals)
    with show_progress("drawing frames", progress=progress) as frames.on_frame:
        written = draw_gallery(
            material,
            folder,
            originals=frames,
            num_samples=None if all else num_samples,
            clip_ids=clips,
            seed=seed,
            video=video,
            style=style,
            overwrite=overwrite,
        )
        paths = tuple(written)
    names = [part for path in paths for part in path.relative_to(folder).with_suffix("").parts]
    return Drawn(paths, frames.num_gone, notes_on(frames, names))


def report(
    run: RunOrFile,
    out: Annotated[AnyPath, setting("The HTML file.")] = "report.html",
    *,
    originals: Originals = None,
    overwrite: Overwrite = False,
    progress: bool | None = None,
    **reading: Annotated[Any, Reading],
) -> Drawn:
    """Write one HTML file: presence, gaps, jumps, suspected swaps, the worst clips, failures.

    `progress` is as in `visualize`.
    """
    from posemill.inspection.report.build import measure_all, write_report

    outputs = Outputs(run, overwrite=overwrite)
    material = Reading(**reading).open(run)
    outputs.claim_file(here(out))
    clips = track(material.clips_so_far(), "measuring", material.num_frames, len, progress=progress)
    quality = measure_all(clips)
    frames = originals_of(material.picture_facts(), originals)
    with show_progress("drawing frames", progress=progress) as frames.on_frame:
        write_report(material, quality, Path(out), originals=frames)
    outputs.record(Path(out))
    return Drawn((Path(out),), frames.num_gone, notes_on(frames))


def _print_paths(drawn: Drawn) -> None:
    say("{paths}", paths="\n".join(map(str, drawn)))


def _as_page(drawn: Drawn) -> dict[str, Any]:
    return {"path": drawn.paths[0], "num_originals_gone": drawn.num_originals_gone}


def _print_notes(drawn: Drawn) -> None:
    print_notes(drawn.notes)


def plot(clip: PoseClip, index: int | None = None, *, originals: AnyPath | None = None) -> Frame:
    """Return a picture, RGB, of one frame of a clip, or of up to twelve side by side.

    Args:
        clip: Of any skeleton.
        index: Row of the frame; None for a contact sheet.
        originals: Folder of the original pictures or videos, where it is not the one its run
            recorded; without any the canvas is blank.
    """
    from posemill.inspection.drawing.frame_picture import clip_sheet, draw, draw_cell, spread_rows
    from posemill.runs.reader import open_run

    if not len(clip):
        raise ValueError(f"clip {clip.clip_id!r} has no frames to draw")
    if index is not None and not -len(clip) <= index < len(clip):
        raise IndexError(f"clip {clip.clip_id!r} has {len(clip)} frames; there is none at {index}")
    facts: dict[str, Any] = {}
    with suppress(PosemillError):  # the run was moved: the clip is drawn on a blank canvas
        facts = asdict(open_run(clip.run_folder).manifest) if clip.run_folder else {}
    rows = spread_rows(clip) if index is None else [range(len(clip))[index]]
    frames = originals_of(facts, originals).frames(clip, rows)
    if index is None:
        return clip_sheet(clip, [draw_cell(frame, clip, row) for row, frame in frames])
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
    from posemill.decoders.pictures import encode_picture
    from posemill.inspection.drawing.picture_files import open_viewer, write_picture

    picture = plot(clip, index, originals=originals)
    if path is not None:
        write_picture(Path(path), picture, Outputs(clip.run_folder or "", overwrite=overwrite))
    elif is_notebook():
        from IPython.display import Image, display

        display(Image(data=encode_picture(picture, "png")))
    else:
        open_viewer(picture)


def originals_of(facts: dict[str, Any], moved_to: AnyPath | None) -> OriginalFrames:
    """Return the pictures that keypoints were found in, where they are or were moved to."""
    from posemill.inspection.drawing.originals import Originals as OriginalFrames

    return OriginalFrames(facts, moved_to=None if moved_to is None else Path(moved_to))


def notes_on(originals: OriginalFrames, names: Iterable[str] = ()) -> tuple[str, ...]:
    """Return in words what could not be drawn as it should be, and what to do about it."""
    from posemill.inspection.drawing.lettering import lacks_font

    notes = []
    if originals.num_unplaced:
        template = (
            "{num_frames:frame|frames} of normalised keypoints drawn on a blank canvas: they have "
            "no place in the original pictures"
        )
        notes.append(Message(template, num_frames=originals.num_unplaced))
    if originals.num_gone:
        template = (
            "{num_gone} of {total} original pictures could not be read, drawn on a blank canvas; "
            "the first: {reason}. If they were moved, name their folder by {--originals}"
        )
        total, reason = originals.num_gone + originals.num_read, originals.first_reason
        notes.append(Message(template, num_gone=originals.num_gone, total=total, reason=reason))
    if advice := lacks_font(names):
        notes.append(Message(advice))
    return tuple(notes)


def clip_html(clip: PoseClip) -> str:
    """Return a clip as HTML: what it is, how often each part was found, frames side by side."""
    from posemill.inspection.report.page import picture_uri, table
    from posemill.skeletons.palette import part_label

    width, height = clip.sizes_wh.max(axis=0, initial=0)
    facts = {
        "clip": clip.clip_id,
        "split": clip.split,
        "label": clip.label,
        "skeleton": clip.skeleton_name,
        "frames": len(clip),
        "frames/s": None if clip.fps is None else f"{clip.fps:g}",
        "size": f"{width}x{height}" if width and height else None,
    }
    facts = {name: fact for name, fact in facts.items() if fact is not None}
    picture = ""
    if len(clip):
        shares = zip(clip.skeleton.part_names, clip.present.mean(0), strict=True)
        facts |= {part_label(part): f"{share:.1%}" for part, share in shares}
        picture = f'<img src="{picture_uri(plot(clip), _WIDTH)}">'
    return table(list(facts), [list(facts.values())]) + picture


def run_html(run: Run) -> str:
    """Return a run as HTML: clips, frames, presence of the parts and failures of every split."""
    from posemill.commands.look import split_table, view
    from posemill.inspection.report.page import table, text

    state = "finished" if run.is_finished else "not finished"
    head = f"<p><b>{text(run.folder)}</b> {text(run.skeleton_name)}, {state}</p>"
    try:
        splits = view(run, rows=0, progress=False)["splits"]
    except PosemillError as error:  # a shard is gone: what is known is shown all the same
        return f"{head}<p>{text(error)}</p>"
    return head + table(*split_table(splits))


COMMANDS = (
    Command("visualize", visualize, shown_by(_print_paths, _print_notes)),
    Command("report", report, shown_by(_print_paths, _print_notes, plain=_as_page)),
)
