"""`posemill compare`: two runs of the same clips, against each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from posemill.cli.look import OriginalsRoot
from posemill.cli.options import AsJson, FromFormat, PictureSize, Splits
from posemill.cli.printing import print_json, print_table, say
from posemill.language import word


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compare")(compare)


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
    as_json: AsJson = False,
) -> None:
    """Compare two runs of the same clips: agreement and pixel distance of every part."""
    from posemill.api import looking

    found = looking.compare(
        one, other, out, skeleton=skeleton, splits=splits, originals=originals,
        from_format=from_format, size=size,
    )  # fmt: skip
    if as_json:
        print_json(found)
    else:
        _print_comparison(found)
    for note in found["notes"]:
        say(note, err=True, colour="yellow")


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
    say(f"{found['num_clips']} clips and {found['num_frames']} frames in both, compared in "
        f"{found['num_points']} points of {found['skeleton_name']}\n")  # fmt: skip
    rows = [
        [
            word("total") if split["split"] == ALL_SPLITS else split["split"],
            name.replace("_", " "), part["num_frames"], part["one_has"], part["other_has"],
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
