"""`posemill merge`, `prepare`, `export`, `import`: keypoints into other files, and back."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posemill.cli.options import (
    AsJson,
    FromFormat,
    OptionalRunOrFile,
    Overwrite,
    Person,
    PictureSize,
    RunOrFile,
    Splits,
    old_flags,
)
from posemill.cli.printing import print_json, print_table, say, warnings_as_notes
from posemill.errors import ConfigError, RunError
from posemill.language import translate, word
from posemill.outputs import Outputs
from posemill.terminal import counted

if TYPE_CHECKING:
    from posemill.formats.shared.contract import Summary
    from posemill.jobs.convert.prepare import Prepared

Skeleton = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Points to write; the format's usual ones by default. 143 and 543 are short for "
        "holistic-143 and holistic-543. {posemill.skeletons:skeleton_names}",
    ),
]
Normalize = Annotated[
    str,
    typer.Option(
        metavar="HOW",
        help="Shoulder midpoint at 0 and shoulder width 1, or the clip's box from -1 to 1. "
        "{posemill.records:NORMALIZATIONS}",
    ),
]
Interpolate = Annotated[
    int, typer.Option(metavar="N", help="Close gaps of up to N frames by straight lines.")
]
Fill = Annotated[
    str | None,
    typer.Option(
        metavar="WHAT",
        help="What stands for missing points beside their mask; zero by default. "
        "{posemill.formats.shared.contract:FILLS}",
    ),
]
_renamed = old_flags({"--layout": "--skeleton"})
DryRun = Annotated[bool, typer.Option("--dry-run", help="Read and count, write nothing.")]


def register(app: typer.Typer) -> None:
    """Add the four commands."""
    app.command("merge")(_renamed(merge))
    app.command("prepare")(_renamed(prepare))
    app.command("export")(_renamed(export))
    app.command("import")(_renamed(import_))


def merge(
    inputs: Annotated[
        list[Path] | None, typer.Argument(metavar="RUN_OR_FILE...", help="Runs or result files.")
    ] = None,
    *,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "--output-path", help="Folder or URI of the new run, or a file to export."
        ),
    ],
    input_files: Annotated[
        list[Path] | None, typer.Option(metavar="FILE...", help="The same as RUN_OR_FILE.")
    ] = None,
    from_format: FromFormat = None,
    size: PictureSize = None,
    skeleton: Skeleton = None,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Join runs or result files into one run; clips that come twice must be equal."""
    from posemill.api import converting
    from posemill.api.arguments import run_and_file

    run, file = run_and_file(out)
    if file is not None:
        if run.exists() and not overwrite:
            raise RunError(
                f"{file} was written before, and its run {run} is there; choose another name for "
                "--output-path, or replace both by --overwrite"
            )
        Outputs(run, overwrite=overwrite).claim_file(file)
    with warnings_as_notes():
        summary = converting.merge(
            _given("RUN_OR_FILE", [*(inputs or []), *(input_files or [])]), run,
            skeleton=skeleton, from_format=from_format, size=size, overwrite=overwrite,
            dry_run=dry_run,
        )  # fmt: skip
    _print_run(summary, as_json=as_json, dry_run=dry_run)
    if file is not None and not dry_run:
        exported = converting.export(run, out=file, skeleton=skeleton, overwrite=overwrite)
        say(f"{file} written; the run is {run}", err=True)
        say_losses(exported.losses)


def _given(what: str, paths: list[Path]) -> list[Path]:
    if not paths:
        raise ConfigError(f"{what} is missing: expected a run or a file")
    return paths


def prepare(
    path: OptionalRunOrFile = None,
    *,
    out: Annotated[
        Path, typer.Option("--out", "--output-dir", help="Folder for the files.")
    ] = Path("model_input_data"),
    keypoints_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The same as RUN_OR_FILE.")
    ] = None,
    from_format: FromFormat = None,
    size: PictureSize = None,
    splits: Splits = None,
    skeleton: Skeleton = None,
    normalize: Normalize = "none",
    interpolate: Interpolate = 0,
    fill: Fill = None,
    person: Person = "main",
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Write {split}_keypoints.npz, the input of a model, and {split}_stats.json."""
    from posemill.api import converting

    shape: dict[str, Any] = {
        "splits": splits, "skeleton": skeleton, "normalize": normalize, "interpolate": interpolate,
        "fill": fill, "from_format": from_format, "size": size, "person": person,
    }  # fmt: skip
    (path,) = _given("RUN_OR_FILE", [each for each in (path, keypoints_file) if each][:1])
    with warnings_as_notes():
        if dry_run:
            _print_dry_run(converting.count(path, "npz", as_files=True, **shape), as_json=as_json)
        else:
            made = converting.prepare(path, out, overwrite=overwrite, **shape)
            _print_prepared(made, as_json=as_json)


def export(
    path: RunOrFile,
    *,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT",
            help="By default what the ending of --out says. {posemill.formats:known_formats}",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="The file, or the folder, to write.")],
    from_format: FromFormat = None,
    size: PictureSize = None,
    splits: Splits = None,
    skeleton: Skeleton = None,
    normalize: Normalize = "none",
    interpolate: Interpolate = 0,
    fill: Fill = None,
    person: Person = "main",
    replace: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OLD=NEW",
            help="Folders called otherwise: frames=annotation writes train/annotation/x.txt for "
            "train/frames/x.jpg (txt, openpose).",
        ),
    ] = None,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Write a run or a file in another format."""
    from posemill.api import converting

    shape: dict[str, Any] = {
        "splits": splits, "skeleton": skeleton, "normalize": normalize, "interpolate": interpolate,
        "fill": fill, "from_format": from_format, "size": size, "person": person,
        "replace": _renames(replace or []),
    }  # fmt: skip
    with warnings_as_notes():
        if dry_run:
            counted = converting.count(path, converting.format_of(to, out), **shape)
            _print_dry_run(counted, as_json=as_json)
        else:
            summary = converting.export(path, to, out, overwrite=overwrite, **shape)
            _print_exported(summary, as_json=as_json)


def _renames(pairs: list[str]) -> dict[str, str]:
    """Return new names of folders by their old ones."""
    found = {}
    for pair in pairs:
        old, _, new = pair.partition("=")
        if not old or not new:
            raise ConfigError(f"--replace: expected OLD=NEW, as frames=annotation, got {pair!r}")
        found[old] = new
    return found


def import_(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A file or folder of any format.")],
    *,
    out: Annotated[Path, typer.Option(help="Folder or URI of the new run.")],
    from_format: FromFormat = None,
    size: PictureSize = None,
    splits: Splits = None,
    skeleton: Skeleton = None,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Make a run of a file or folder of any format that `export` writes."""
    from posemill.api.converting import import_run

    with warnings_as_notes():
        summary = import_run(
            path, out, splits=splits, skeleton=skeleton, from_format=from_format, size=size,
            overwrite=overwrite, dry_run=dry_run,
        )  # fmt: skip
    _print_run(summary, as_json=as_json, dry_run=dry_run)


def _print_prepared(made: list[Prepared], *, as_json: bool) -> None:
    if as_json:
        print_json([{"path": each.path, "stats_path": each.stats_path, "losses": each.losses}
                    | each.stats for each in made])  # fmt: skip
        return
    print_table(
        ("split", "clips", "frames", "missing", "longest gap", "file"),
        [(each.split, each.stats["num_clips"], each.stats["num_frames"],
          f"{each.stats['missing_rate']:.1%}", each.stats["longest_gap"], each.path)
         for each in made],
    )  # fmt: skip
    say_losses(loss for each in made for loss in each.losses)


def _print_exported(summary: Summary, *, as_json: bool) -> None:
    if as_json:
        print_json(vars(summary))
        return
    counts = f"{counted(summary.num_clips, 'clips')}, {counted(summary.num_frames, 'frames')}"
    say(f"{summary.path}: {counts} ({summary.format_name})")
    say_losses(summary.losses)


def say_losses(losses: Iterable[str]) -> None:
    """Say what a file cannot hold of what was written into it."""
    known = map(word, dict.fromkeys(losses))  # whole, or else by its pieces
    if words := "; ".join(translate(piece) for loss in known for piece in loss.split("; ")):
        say(f"not kept: {words}", err=True)


def _print_run(summary: Any, *, as_json: bool, dry_run: bool) -> None:
    if as_json:
        print_json(vars(summary) | {"path": summary.name, "dry_run": dry_run})
        return
    for split, count in summary.splits.items():
        say(f"{split}: {counted(count, 'clips')}")
    again = summary.equal_duplicates
    say(
        f"{summary.name}: {counted(summary.num_clips, 'clips')}, "
        f"{counted(summary.num_frames, 'frames')}"
        + (f"; {again} came twice, equal" if again else "")
        + (f"; {summary.num_failures} failures kept" if summary.num_failures else "")
        + (" (not written: --dry-run)" if dry_run else "")
    )
    say_losses(summary.losses)


def _print_dry_run(found: tuple[Summary, list[str]], *, as_json: bool) -> None:
    summary, layouts = found
    result = {"splits": summary.splits, "num_clips": summary.num_clips,
              "num_frames": summary.num_frames, "layout": layouts, "recipe": summary.recipe,
              "losses": summary.losses, "dry_run": True}  # fmt: skip
    if as_json:
        print_json(result)
        return
    say(f"{counted(summary.num_clips, 'clips')}, {counted(summary.num_frames, 'frames')} as "
        f"{', '.join(layouts)} ({summary.format_name}); nothing was written: "
        "--dry-run")  # fmt: skip
    say_losses(summary.losses)
