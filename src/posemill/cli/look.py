"""`posemill view`, `visualize`, `report`, `compare`: looking at runs and exported files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posemill.cli.options import (
    AsJson,
    FromFormat,
    Overwrite,
    Person,
    PictureSize,
    RunOrFile,
    Splits,
)
from posemill.cli.printing import print_json, print_table, say
from posemill.language import translate, word
from posemill.skeletons.palette import part_label
from posemill.terminal import counted

if TYPE_CHECKING:
    from posemill.api.looking import Drawn

OriginalsRoot = Annotated[
    Path | None,
    typer.Option(
        "--originals",
        help="Folder of the original pictures or videos, where it is not the recorded one.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("view")(view)
    app.command("visualize")(visualize)
    app.command("report")(report)
    app.command("compare")(compare)


def view(
    path: RunOrFile,
    *,
    splits: Splits = None,
    detailed: Annotated[bool, typer.Option("--detailed", help="Every clip, every part.")] = False,
    rows: Annotated[int, typer.Option(min=0, help="Sample rows to show.")] = 5,
    from_format: FromFormat = None,
    size: PictureSize = None,
    as_json: AsJson = False,
) -> None:
    """Show what is in a run or an exported file: clips, frames, sizes, presence of the parts."""
    from posemill.api import viewing

    result = viewing.view(
        path, splits=splits, detailed=detailed, rows=rows, from_format=from_format, size=size
    )
    if as_json:
        print_json(result)
    else:
        _print_view(result)
    for note in result["notes"]:
        say(f"note: {note}", err=True)


def visualize(
    path: RunOrFile,
    *,
    out: Annotated[Path, typer.Option(help="Folder for the pictures.")] = Path("pictures"),
    num_samples: Annotated[
        int, typer.Option(min=1, help="Frames of each split; with --video, clips of each split.")
    ] = 10,
    splits: Splits = None,
    clips: Annotated[list[str] | None, typer.Option(help="Only these clips, by their ids.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed draws other samples.")] = 0,
    video: Annotated[
        str | None, typer.Option(metavar="mp4|gif", help="Whole clips as movies.")
    ] = None,
    originals: OriginalsRoot = None,
    from_format: FromFormat = None,
    size: PictureSize = None,
    person: Person = "all",
    style: Annotated[
        str,
        typer.Option(
            metavar="keypoints|openpose",
            help="openpose: skeletons on black as pose-driven generators expect them, a file for "
            "each picture, folders as theirs.",
        ),
    ] = "keypoints",
    all_frames: Annotated[
        bool, typer.Option("--all", help="Every frame; with --video, every clip.")
    ] = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Draw sampled frames, with contact sheets, or with --video whole clips as movies."""
    from posemill.api import looking

    drawn = looking.visualize(
        path, out, num_samples=num_samples, splits=splits, clips=clips, seed=seed, video=video,
        originals=originals, from_format=from_format, size=size, person=person,
        style=style, all=all_frames, overwrite=overwrite,
    )  # fmt: skip
    if as_json:
        print_json({"paths": drawn.paths, "num_originals_gone": drawn.num_originals_gone})
    else:
        say("\n".join(map(str, drawn.paths)))
    _print_notes(drawn)


def report(
    path: RunOrFile,
    *,
    out: Annotated[Path, typer.Option(help="The HTML file.")] = Path("report.html"),
    splits: Splits = None,
    originals: OriginalsRoot = None,
    from_format: FromFormat = None,
    size: PictureSize = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write one HTML file: presence, gaps, jumps, suspected swaps, the worst clips, failures."""
    from posemill.api import looking

    drawn = looking.report(
        path, out, splits=splits, originals=originals, from_format=from_format, size=size,
        overwrite=overwrite,
    )  # fmt: skip
    if as_json:
        print_json({"path": out, "num_originals_gone": drawn.num_originals_gone})
    else:
        say(out)
    _print_notes(drawn)


def compare(
    one: Annotated[
        Path, typer.Argument(metavar="RUN_A", help="A run folder, or a file of any format.")
    ],
    other: Annotated[Path, typer.Argument(metavar="RUN_B", help="Another, of the same clips.")],
    *,
    out: Annotated[
        Path | None, typer.Option(help="An HTML file, with the worst frames side by side.")
    ] = None,
    skeleton: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What both are turned into; by default the one with most points of both. "
            "{posemill.skeletons:skeleton_names}",
        ),
    ] = None,
    splits: Splits = None,
    originals: OriginalsRoot = None,
    from_format: FromFormat = None,
    size: PictureSize = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Compare two runs of the same clips: agreement and pixel distance of every part."""
    from posemill.api import looking

    found = looking.compare(
        one, other, out, skeleton=skeleton, splits=splits, originals=originals,
        from_format=from_format, size=size, overwrite=overwrite,
    )  # fmt: skip
    if as_json:
        print_json(found)
    else:
        _print_comparison(found)
    for note in found["notes"]:
        say(note, err=True, colour="yellow")


def _print_notes(drawn: Drawn) -> None:
    for note in drawn.notes:
        say(note, err=True, colour="yellow")


def _print_view(result: dict[str, Any]) -> None:
    state = {True: word("finished"), False: word("not finished")}.get(
        result.get("is_finished", ""), ""
    )
    skeletons = ", ".join(result["skeleton_names"])
    head = [result["path"], word(result["kind"]), skeletons, *_done_to(result), state]
    say("  ".join(filter(None, head)))
    say("")
    names = list(result["splits"][-1]["presence"])
    labels = [name.replace("_", " ") for name in names]
    columns = ["split", "clips", "frames", "length", "size", *labels]
    if any("frames_failed" in each for each in result["splits"]):
        columns += ["clips failed", "frames failed"]
    print_table(columns, [_split_row(each, names) for each in result["splits"]])
    if result["reasons"]:
        say("\nwhat gave no keypoints\n")
        columns = ["reason", "failures", "frames", "clips"]
        rows = [[each[name] for name in columns] for each in result["reasons"]]
        print_table(columns, [(word(translate(reason)), *rest) for reason, *rest in rows])
    if result["sample_rows"]:
        say("\nsample rows (points found of each part)\n")
        print_table(
            ["split", "clip", "frame", *labels, "picture"],
            [_sample_row(each, names) for each in result["sample_rows"]],
        )
    if "clips" in result:
        say("\nclips, worst first (presence / longest gap in frames)\n")
        clips = sorted(result["clips"], key=lambda each: -each["badness"])
        columns = ["split", "clip", "frames", *labels]
        columns += ["jumps", "swaps", "frozen", "badness", "why"]
        print_table(columns, [_clip_row(each, names) for each in clips])


def _done_to(result: dict[str, Any]) -> list[str]:
    """Return in words what was done to the keypoints; nothing where they are as they were found."""
    normalized, longest = result["normalized"], result["interpolated"]
    some = "some " if len(normalized) > 1 else ""
    words = [f"{some}normalised by {name}" for name in normalized if name != "none"]
    words += [f"gaps of up to {counted(longest, 'frames')} closed"] if longest else []
    return list(map(translate, words))


def _split_row(split: dict[str, Any], names: list[str]) -> list[Any]:
    from posemill.inspection.summary import ALL_SPLITS

    lengths = split["frames_per_clip"]
    usual = split["sizes_wh"][0] if split["sizes_wh"] else {"width": 0, "height": 0}
    more = f" +{split['num_sizes'] - 1}" if split["num_sizes"] > 1 else ""
    span = "-".join(dict.fromkeys(str(lengths[name]) for name in ("min", "max")))
    name = word("total") if split["split"] == ALL_SPLITS else split["split"]
    failed = [split[name] for name in ("clips_failed", "frames_failed") if name in split]
    return [
        name, split["num_clips"], split["num_frames"], span,
        _size(usual["width"], usual["height"]) + more,
        *(_percent(split["presence"].get(name)) for name in names), *failed,
    ]  # fmt: skip


def _sample_row(row: dict[str, Any], names: list[str]) -> list[Any]:
    found = [row["num_found"].get(name, 0) for name in names]
    picture = Path(row["image_path"] or "-").name
    return [row["split"], row["clip_id"], row["frame_index"], *found, picture]


def _clip_row(clip: dict[str, Any], names: list[str]) -> list[Any]:
    from posemill.inspection.quality import say_reason

    parts = [
        f"{_percent(part['presence'])} / {part['longest_gap']}" if part else "-"
        for part in (clip["parts"].get(name) for name in names)
    ]
    return [clip["split"], clip["clip_id"], clip["num_frames"], *parts, clip["num_jumps"],
            clip["num_swaps"], clip["num_frozen"], f"{clip['badness']:.2f}",
            "; ".join(say_reason(reason, names) for reason in clip["reasons"])]  # fmt: skip


def _size(width: int, height: int) -> str:
    return f"{width}x{height}" if width and height else "unknown"


def _percent(share: float | None) -> str:
    if share is None:
        return "-"
    if share < 1 and f"{share:.1%}" == "100.0%":
        return "<100%"  # a part that is missing once must not look complete
    return "100%" if share == 1 else f"{share:.1%}"


def _print_comparison(found: dict[str, Any]) -> None:
    from posemill.inspection.comparison.page import pixels_in_words
    from posemill.inspection.summary import ALL_SPLITS

    for side in (found["one"], found["other"]):
        engine = side["engine"].get("engine", "")
        say(
            "  ".join(
                filter(None, [side["path"], word(side["kind"]), side["skeleton_name"], engine])
            )
        )
    say(f"{counted(found['num_clips'], 'clips')} and {counted(found['num_frames'], 'frames')} in "
        f"both, compared in {found['num_points']} points of "
        f"{found['skeleton_name']}\n")  # fmt: skip
    rows = [
        [
            word("total") if split["split"] == ALL_SPLITS else split["split"],
            word(part_label(name)), part["num_frames"], part["one_has"], part["other_has"],
            "-" if part["agree"] is None else f"{part['agree']:.4f}",
            *(pixels_in_words(part[each]) for each in ("median", "p95", "max")),
        ]
        for split in found["splits"]
        for name, part in split["parts"].items()
    ]  # fmt: skip
    columns = ["split", "part", "frames", "in A", "in B", "agree", "median px", "p95 px", "max px"]
    print_table(columns, rows)
    if "page" in found:
        say(found["page"])
