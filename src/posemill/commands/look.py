"""`view`, `compare`: what is in runs and exported files, and how two of them differ."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from posemill.commands.arguments import AnyPath, Reading, here
from posemill.commands.declaring import (
    AsJson,
    Ask,
    Command,
    Originals,
    Overwrite,
    RunOrFile,
    door,
)
from posemill.commands.pictures import notes_on, originals_of
from posemill.commands.printing import print_json, print_table, say
from posemill.commands.progress import show_progress, track
from posemill.language import translate, word
from posemill.messages import Message, join, render
from posemill.outputs import Outputs
from posemill.settings import setting
from posemill.terminal import counted

if TYPE_CHECKING:
    from posemill.inspection.comparison.measure import Comparison


class View(dict[str, Any]):
    """What is in a run or a file, as plain values; printed, a line for each split."""

    def __repr__(self) -> str:
        head = f"View of {self['path']}: {self['kind']}, {', '.join(self['skeleton_names'])}"
        return "\n".join([head, *map(_split_line, self["splits"])])


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


@door(lambda: Reading)
def view(
    run: RunOrFile,
    *,
    detailed: Annotated[bool, setting("Every clip, every part.")] = False,
    rows: Annotated[int, setting("Sample rows to show.", least=0)] = 5,
    progress: bool | None = None,
    **reading: Any,
) -> View:
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


def _show_view(ask: Ask, *, as_json: AsJson = False) -> None:
    result = ask()
    if as_json:
        print_json(result)
    else:
        _print_view(result)
    for note in result["notes"]:
        say(Message("note: {text}", text=note), err=True)


class Compared(dict[str, Any]):
    """How two runs of the same clips differ, as plain values; printed, a line for each part."""

    def __repr__(self) -> str:
        from posemill.inspection.comparison.page import pixels_in_words

        lines = [
            f"Compared {self['one']['path']} with {self['other']['path']}: "
            f"{counted(self['num_clips'], 'clips')}, "
            f"{counted(self['num_frames'], 'frames')}"
        ]
        for split in self["splits"]:
            for name, part in split["parts"].items():
                far = [pixels_in_words(part[each]) for each in ("median", "p95", "max")]
                lines.append(
                    f"  {split['split']} {name}: agree {part['agree']:.4f}; median "
                    f"{far[0]}, p95 {far[1]}, max {far[2]} px"
                )
        return "\n".join(lines)


@door(lambda: Reading)
def compare(
    one: Annotated[
        AnyPath,
        setting("A run folder, or a file of any format.", metavar="RUN_A", argument=True),
    ],
    other: Annotated[
        AnyPath, setting("Another, of the same clips.", metavar="RUN_B", argument=True)
    ],
    out: Annotated[
        AnyPath | None, setting("An HTML file, with the worst frames side by side.")
    ] = None,
    *,
    skeleton: Annotated[
        str | None,
        setting(
            "What both are turned into; by default the one with most points of both.",
            metavar="NAME",
            choices="posemill.skeletons:skeleton_names",
            is_open=True,
        ),
    ] = None,
    originals: Originals = None,
    overwrite: Overwrite = False,
    progress: bool | None = None,
    **reading: Any,
) -> Compared:
    """Compare two runs of the same clips: agreement and pixel distance of every part.

    Distances are in pixels of the pictures of the first. `progress` is as in `view`.
    """
    from posemill.clips.inputs import open_inputs
    from posemill.inspection.comparison.measure import Comparison
    from posemill.inspection.comparison.page import write_comparison
    from posemill.inspection.comparison.pairs import Pairing
    from posemill.skeletons import full_name

    outputs = Outputs(one, other, overwrite=overwrite)
    if out is not None:
        outputs.claim_file(here(out))
    layout = None if skeleton is None else full_name(skeleton)
    options = Reading(**reading)
    first, second = open_inputs(
        [Path(one), Path(other)],
        format_name=options.from_format,
        size_wh=options.size,
        splits=options.splits,
        person="main",
    )
    found = originals_of(first.picture_facts(), originals)
    pairing = Pairing.of(first, second, layout)
    total = sum(pairing.one.num_frames[key] for key in pairing.common)
    pairs = track(pairing.clips(), "comparing", total, lambda pair: len(pair[0]), progress=progress)
    compared = Comparison(pairing).add_all(pairs)
    if out is not None:
        with show_progress("drawing frames", progress=progress) as found.on_frame:
            write_comparison(compared, Path(out), originals=found)
        outputs.record(Path(out))
    notes = [*_notes_on_pairs(compared), *notes_on(found)]
    pages = {} if out is None else {"page": str(out)}
    return Compared(compared.to_dict() | pages | {"notes": notes})


def _show_compare(ask: Ask, *, as_json: AsJson = False) -> None:
    found = ask()
    if as_json:
        print_json(found)
    else:
        _print_comparison(found)
    for note in found["notes"]:
        say(note, err=True, colour="yellow")


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
    from posemill.inspection.summary import ALL_SPLITS, percent

    lengths = split["frames_per_clip"]
    usual = split["sizes_wh"][0] if split["sizes_wh"] else {"width": 0, "height": 0}
    more = f" +{split['num_sizes'] - 1}" if split["num_sizes"] > 1 else ""
    span = "-".join(dict.fromkeys(str(lengths[name]) for name in ("min", "max")))
    name = word("total") if split["split"] == ALL_SPLITS else split["split"]
    failed = [split[name] for name in ("clips_failed", "frames_failed") if name in split]
    return [
        name,
        split["num_clips"],
        split["num_frames"],
        span,
        _size(usual["width"], usual["height"]) + more,
        *(percent(split["presence"].get(name)) for name in names),
        *failed,
    ]


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
    return [
        clip["split"],
        clip["clip_id"],
        clip["num_frames"],
        *parts,
        clip["num_jumps"],
        clip["num_swaps"],
        clip["num_frozen"],
        f"{clip['badness']:.2f}",
        render(join("; ", clip["reasons"])),
    ]


def _size(width: int, height: int) -> str:
    return f"{width}x{height}" if width and height else "unknown"


def _print_comparison(found: dict[str, Any]) -> None:
    from posemill.inspection.comparison.page import pixels_in_words
    from posemill.inspection.summary import ALL_SPLITS
    from posemill.skeletons.palette import part_label

    for side in (found["one"], found["other"]):
        engine = side["engine"].get("engine", "")
        say(
            "  ".join(
                filter(None, [side["path"], word(side["kind"]), side["skeleton_name"], engine])
            )
        )
    say(
        f"{counted(found['num_clips'], 'clips')} and {counted(found['num_frames'], 'frames')} in "
        f"both, compared in {found['num_points']} points of "
        f"{found['skeleton_name']}\n"
    )
    rows = [
        [
            word("total") if split["split"] == ALL_SPLITS else split["split"],
            word(part_label(name)),
            part["num_frames"],
            part["one_has"],
            part["other_has"],
            "-" if part["agree"] is None else f"{part['agree']:.4f}",
            *(pixels_in_words(part[each]) for each in ("median", "p95", "max")),
        ]
        for split in found["splits"]
        for name, part in split["parts"].items()
    ]
    columns = ["split", "part", "frames", "in A", "in B", "agree", "median px", "p95 px", "max px"]
    print_table(columns, rows)
    if "page" in found:
        say(found["page"])


COMMANDS = (Command("view", view, _show_view), Command("compare", compare, _show_compare))
