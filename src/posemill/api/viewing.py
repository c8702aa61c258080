"""`posemill.view`: what is in a run or a file. Apart from what draws, which it does not need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from posemill.api.arguments import AnyPath, Names, Size, names_of, parse_size
from posemill.api.progress import track
from posemill.clips.inputs import ClipInput
from posemill.inspection.quality import measure
from posemill.inspection.summary import clip_row, describe
from posemill.terminal import counted


class View(dict[str, Any]):
    """What is in a run or a file, as plain values; printed, a line for each split."""

    def __repr__(self) -> str:
        return "\n".join([f"View of {self['path']}: {self['kind']}, "
                          f"{', '.join(self['skeleton_names'])}",
                          *map(_split_line, self["splits"])])  # fmt: skip


def _split_line(split: dict[str, Any]) -> str:
    presence = ", ".join(
        f"{name} {share:.1%}" for name, share in split["presence"].items() if share is not None
    )
    failed = split.get("frames_failed", 0)
    return (
        f"  {split['split']}: {counted(split['num_clips'], 'clips')}, "
        f"{counted(split['num_frames'], 'frames')}"
        + (f", {failed} failed" if failed else "")
        + (f"; {presence}" if presence else "")
    )


def view(
    run: AnyPath,
    *,
    splits: Names = None,
    detailed: bool = False,
    rows: int = 5,
    from_format: str | None = None,
    size: Size = None,
    progress: bool | None = None,
) -> View:
    """Return what is in a run or a file: clips, frames, sizes, presence of the parts.

    Args:
        run: A run, or a file of any format.
        splits: Only these; all by default.
        detailed: Also every clip, with what looks wrong in it, as `clips`.
        rows: Sample rows, one from each of the first clips.
        from_format: Format of a file; found out by default.
        size: `"1280x720"` or `(1280, 720)`: of pictures whose size a file does not say.
        progress: Bars on a terminal or a line in a notebook; False for none.
    """
    material = ClipInput(
        Path(run), format_name=from_format, size_wh=parse_size(size), splits=names_of(splits)
    )
    total = material.num_frames
    outlines = track(
        material.outlines(is_grouped=True), "counting", total,
        lambda each: each.num_clips * each.num_frames, progress=progress,
    )  # fmt: skip
    found = View(describe(material, outlines, num_rows=rows))
    if detailed:
        clips = track(material.clips_so_far(), "measuring", total, len, progress=progress)
        found["clips"] = [clip_row(measure(clip)) for clip in clips]
    has_sizes = all(size["width"] for split in found["splits"] for size in split["sizes_wh"])
    found["notes"] = []
    if detailed and not has_sizes:
        found["notes"].append(
            f"{material.name} does not say how large the pictures are: jumps and swaps are "
            "measured as if they were square, other than in its run; give --size WIDTHxHEIGHT"
        )
    return found
