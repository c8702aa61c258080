"""Clips and runs as notebooks show them: a table, and the picture of a clip, as HTML."""

from __future__ import annotations

from posemill.api.looking import plot
from posemill.api.viewing import view
from posemill.errors import PosemillError
from posemill.inspection.report.page import picture_uri, table, text
from posemill.records import PoseClip
from posemill.skeletons.palette import part_label
from posemill.stores.reader import Run

_WIDTH = 640  # pixels of the picture: some 60 kB in the notebook's file


def clip_html(clip: PoseClip) -> str:
    """Return a clip as HTML: what it is, how often each part was found, frames side by side."""
    width, height = clip.sizes_wh.max(axis=0, initial=0)
    facts: dict[str, object] = {"clip": clip.clip_id, "split": clip.split}
    if clip.label is not None:
        facts["label"] = clip.label
    facts |= {"skeleton": clip.skeleton_name, "frames": len(clip)}
    if clip.fps is not None:
        facts["frames/s"] = f"{clip.fps:g}"
    if width and height:
        facts["size"] = f"{width}x{height}"
    if not len(clip):
        return table(list(facts), [list(facts.values())])
    for part, share in zip(clip.skeleton.parts, clip.present.mean(0), strict=True):
        facts[part_label(part.name)] = f"{share:.1%}"
    address = picture_uri(plot(clip), _WIDTH)
    return f'{table(list(facts), [list(facts.values())])}<img src="{address}">'


def run_html(run: Run) -> str:
    """Return a run as HTML: clips, frames, presence of the parts and failures of every split."""
    state = "finished" if run.is_finished else "not finished"
    head = f"<p><b>{text(run.folder)}</b> {text(run.skeleton_name)}, {state}</p>"
    try:
        splits = view(run, rows=0, progress=False)["splits"]
    except PosemillError as error:  # a shard is gone: what is known is shown all the same
        return f"{head}<p>{text(error)}</p>"
    parts = list(splits[0]["presence"]) if splits else []
    rows = [
        [split["split"], split["num_clips"], split["num_frames"]]
        + ["" if (share := split["presence"][part]) is None else f"{share:.1%}" for part in parts]
        + [split.get("clips_failed", 0), split.get("frames_failed", 0)]
        for split in splits
    ]
    columns = ["split", "clips", "frames", *map(part_label, parts), "clips failed", "frames failed"]
    return head + table(columns, rows)
