"""`view`, `compare`: what is in runs and exported files, and how two of them differ."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from posemill.commands.arguments import AnyPath, Reading, here
from posemill.commands.declaring import Command, Originals, Overwrite, RunOrFile, shown_by
from posemill.commands.pictures import notes_on, originals_of
from posemill.commands.printing import print_notes, print_table, say
from posemill.commands.progress import show_progress, track
from posemill.language import translate
from posemill.messages import Message, join
from posemill.outputs import Outputs
from posemill.settings import setting

if TYPE_CHECKING:
    from posemill.inspection.comparison.measure import Comparison


def view(
    run: RunOrFile,
    *,
    detailed: Annotated[bool, setting("Show every clip with every part.")] = False,
    rows: Annotated[int, setting("Sample rows to show.", least=0)] = 5,
    progress: bool | None = None,
    **reading: Annotated[Any, Reading],
) -> dict[str, Any]:
    """Show what is in a run or an exported file: clips, frames, sizes, presence of the parts.

    With `detailed` every clip, with what looks wrong in it, is in `clips`. `progress` is bars on a
    terminal or a line in a notebook; False for none.
    """
    from posemill.inspection.quality import measure
    from posemill.inspection.summary import clip_row, describe

    material = Reading(**reading).open(run)
    total = material.num_frames
    outlines = track(
        material.outlines(is_grouped=True),
        "counting",
        total,
        lambda outline: outline.num_clips * outline.num_frames,
        progress=progress,
    )
    result = {**describe(material, outlines, num_rows=rows), "notes": []}
    if not detailed:
        return result
    clips = track(material.clips_so_far(), "measuring", total, len, progress=progress)
    result["clips"] = [clip_row(measure(clip)) for clip in clips]
    if not all(size["width"] for split in result["splits"] for size in split["sizes_wh"]):
        note = Message(
            "{path} does not say how large the pictures are: jumps and swaps are measured as if "
            "they were square, other than in its run; give {--size:WIDTHxHEIGHT}",
            path=material.name,
        )
        result["notes"].append(note)
    return result


def compare(
    one: Annotated[
        AnyPath, setting("A run folder, or a file of any format.", metavar="RUN_A", argument=True)
    ],
    other: Annotated[
        AnyPath, setting("Another one, of the same clips.", metavar="RUN_B", argument=True)
    ],
    out: Annotated[
        AnyPath | None, setting("An HTML file, with the worst frames side by side.")
    ] = None,
    *,
    skeleton: Annotated[
        str | None,
        setting(
            "Skeleton to compare in; by default the one with most points that both have.",
            metavar="NAME",
            choices="posemill.skeletons:skeleton_names",
        ),
    ] = None,
    originals: Originals = None,
    overwrite: Overwrite = False,
    progress: bool | None = None,
    **reading: Annotated[Any, Reading],
) -> dict[str, Any]:
    """Compare two runs of the same clips: agreement and pixel distance of every part.

    Distances are in pixels of the pictures of the first. `progress` is as in `view`.
    """
    from posemill.inspection.comparison.measure import Comparison
    from posemill.inspection.comparison.page import write_comparison
    from posemill.inspection.comparison.pairs import Pairing
    from posemill.skeletons import full_name

    outputs = Outputs(one, other, overwrite=overwrite)
    if out is not None:
        outputs.claim_file(here(out))
    layout = None if skeleton is None else full_name(skeleton)
    options = Reading(**reading)
    first, second = options.open(one), options.open(other)
    frames = originals_of(first.picture_facts(), originals)
    pairing = Pairing(first, second, layout)
    total = sum(pairing.sides[0].num_frames[key] for key in pairing.common)
    pairs = track(pairing.clips(), "comparing", total, lambda pair: len(pair[0]), progress=progress)
    compared = Comparison(pairing, pairs)
    if out is not None:
        with show_progress("drawing frames", progress=progress) as frames.on_frame:
            write_comparison(compared, Path(out), originals=frames)
        outputs.record(Path(out))
    notes = [*_notes_on_pairs(compared), *notes_on(frames)]
    pages = {} if out is None else {"page": str(out)}
    return compared.to_dict() | pages | {"notes": notes}


def _notes_on_pairs(compared: Comparison) -> Iterator[str]:
    pairing = compared.pairing
    for number, num_frames in enumerate(compared.frames_only):
        path = pairing.sides[number].material.path
        if only := pairing.only(number):
            first = ", ".join(map("/".join, only[:3])) + (" …" if len(only) > 3 else "")
            template = "{num_clips:clip|clips} in {path} only, not compared: {first}"
            yield Message(template, num_clips=len(only), path=path, first=first)
        if num_frames:
            template = "{num_frames:frame|frames} of clips in both in {path} only, not compared"
            yield Message(template, num_frames=num_frames, path=path)
    if compared.num_other_size:
        yield Message(
            "{num_frames:frame is|frames are} of another size in the two; distances are in pixels "
            "of {path}",
            num_frames=compared.num_other_size,
            path=pairing.sides[0].material.path,
        )


def _print_view(result: dict[str, Any]) -> None:
    head = [result["path"], Message(result["kind"]), ", ".join(result["skeleton_names"])]
    head += _done_to(result)
    if "is_finished" in result:
        head.append(Message("finished") if result["is_finished"] else Message("not finished"))
    say("{head}\n", head=join("  ", head))
    print_table(*split_table(result["splits"]))
    names = list(result["splits"][-1]["presence"])
    labels = [name.replace("_", " ") for name in names]
    if result["reasons"]:
        say("\nwhat gave no keypoints\n")
        reasons = [
            (translate(row["reason"]), row["failures"], row["frames"], row["clips"])
            for row in result["reasons"]
        ]
        print_table(["reason", "failures", "frames", "clips"], reasons)
    if result["sample_rows"]:
        say("\nsample rows (points found of each part)\n")
        rows = [_sample_row(row, names) for row in result["sample_rows"]]
        print_table(["split", "clip", "frame", *labels, "picture"], rows)
    if "clips" in result:
        say("\nclips, worst first (presence / longest gap in frames)\n")
        clips = sorted(result["clips"], key=lambda clip: -clip["badness"])
        columns = ["split", "clip", "frames", *labels, "jumps", "swaps", "frozen", "badness", "why"]
        print_table(columns, [_clip_row(clip, names) for clip in clips])


def _done_to(result: dict[str, Any]) -> Iterator[Message]:
    """Yield in words what was done to the keypoints; nothing where they are as they were found."""
    is_mixed = len(result["normalized"]) > 1
    for name in result["normalized"]:
        if name != "none":
            template = "some normalised by {name}" if is_mixed else "normalised by {name}"
            yield Message(template, name=name)
    if longest := result["interpolated"]:
        yield Message("gaps of up to {num_frames:frame|frames} closed", num_frames=longest)


def split_table(splits: list[dict[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    """Return columns and rows of the splits that `view` gives."""
    names = list(splits[-1]["presence"])
    labels = [name.replace("_", " ") for name in names]
    columns = ["split", "clips", "frames", "length", "size", *labels]
    if any("frames_failed" in split for split in splits):
        columns += ["clips failed", "frames failed"]
    return columns, [_split_row(split, names) for split in splits]


def _split_row(split: dict[str, Any], names: list[str]) -> list[Any]:
    from posemill.inspection.summary import ALL_SPLITS, percent

    lengths = split["frames_per_clip"]
    usual = split["sizes_wh"][0] if split["sizes_wh"] else {"width": 0, "height": 0}
    size = "{width}x{height}".format(**usual) if all(usual.values()) else "unknown"
    more = f" +{split['num_sizes'] - 1}" if split["num_sizes"] > 1 else ""
    span = "-".join(dict.fromkeys(str(lengths[name]) for name in ("min", "max")))
    title = Message("total") if split["split"] == ALL_SPLITS else split["split"]
    shares = [percent(split["presence"].get(name)) for name in names]
    failed = [split[name] for name in ("clips_failed", "frames_failed") if name in split]
    return [title, split["num_clips"], split["num_frames"], span, size + more, *shares, *failed]


def _sample_row(row: dict[str, Any], names: list[str]) -> list[Any]:
    found = [row["num_found"].get(name, 0) for name in names]
    picture = Path(row["image_path"] or "-").name
    return [row["split"], row["clip_id"], row["frame_index"], *found, picture]


def _clip_row(clip: dict[str, Any], names: list[str]) -> list[Any]:
    from posemill.inspection.summary import percent

    parts = [
        f"{percent(part['presence'])} / {part['longest_gap']}" if part else "-"
        for part in (clip["parts"].get(name) for name in names)
    ]
    facts = [clip[name] for name in ("split", "clip_id", "num_frames")]
    faults = [clip[name] for name in ("num_jumps", "num_swaps", "num_frozen")]
    return [*facts, *parts, *faults, f"{clip['badness']:.2f}", join("; ", clip["reasons"])]


def _print_notes(result: dict[str, Any]) -> None:
    print_notes(result["notes"])


def _print_comparison(compared: dict[str, Any]) -> None:
    from posemill.inspection.comparison.page import pixels_in_words
    from posemill.inspection.summary import ALL_SPLITS
    from posemill.skeletons.palette import part_label

    for side in (compared["one"], compared["other"]):
        engine = side["engine"].get("engine", "")
        say(join("  ", [side["path"], Message(side["kind"]), side["skeleton_name"], engine]))
    say(
        "{num_clips:clip|clips} and {num_frames:frame|frames} in both, compared in {num_points} "
        "points of {skeleton_name}\n",
        **compared,
    )
    rows = [
        [
            Message("total") if split["split"] == ALL_SPLITS else split["split"],
            Message(part_label(name)),
            part["num_frames"],
            part["one_has"],
            part["other_has"],
            "-" if part["agree"] is None else f"{part['agree']:.4f}",
            *(pixels_in_words(part[each]) for each in ("median", "p95", "max")),
        ]
        for split in compared["splits"]
        for name, part in split["parts"].items()
    ]
    columns = ["split", "part", "frames", "in A", "in B", "agree", "median px", "p95 px", "max px"]
    print_table(columns, rows)
    if "page" in compared:
        say("{path}", path=compared["page"])


COMMANDS = (
    Command("view", view, shown_by(_print_view, _print_notes)),
    Command("compare", compare, shown_by(_print_comparison, _print_notes)),
)
