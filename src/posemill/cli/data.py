"""`posemill merge`, `prepare`, `export`, `import`: keypoints into other files, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posemill.cli.options import AsJson, FromFormat, PictureSize, RunOrFile, Splits, parse_size
from posemill.cli.printing import print_json, print_table

if TYPE_CHECKING:
    from posemill.formats.shared.contract import Recipe, Summary
    from posemill.jobs.convert.prepare import Prepared
    from posemill.records import PoseClip

Layout = Annotated[
    str | None,
    typer.Option(
        metavar="543|143|openpose-18|coco-133", help="Points to write; the format's usual ones."
    ),
]
Normalize = Annotated[
    str,
    typer.Option(
        metavar="shoulders|bbox|none",
        help="Shoulder midpoint at 0 and shoulder width 1, or the clip's box from -1 to 1.",
    ),
]
Interpolate = Annotated[
    int, typer.Option(metavar="N", help="Close gaps of up to N frames by straight lines.")
]
Fill = Annotated[
    str | None,
    typer.Option(
        metavar="nan|zero|interpolate",
        help="What stands for missing points beside their mask; zero by default.",
    ),
]
_FORMATS_HELP = (
    "npz, pkl, pyskl, txt, openpose, openpose-file, coco, pose, hdf5, webdataset, parquet or "
    "huggingface."
)
DryRun = Annotated[bool, typer.Option("--dry-run", help="Read and count, write nothing.")]


def register(app: typer.Typer) -> None:
    """Add the four commands."""
    app.command("merge")(merge)
    app.command("prepare")(prepare)
    app.command("export")(export)
    app.command("import")(import_)


def merge(
    inputs: Annotated[
        list[Path], typer.Argument(metavar="RUN_OR_FILE...", help="Runs or result files.")
    ],
    *,
    out: Annotated[Path, typer.Option(help="Folder of the new run.")],
    from_format: FromFormat = None,
    size: PictureSize = None,
    layout: Layout = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Join runs or result files into one run; clips that come twice must be equal."""
    from posemill.formats.shared.contract import Recipe
    from posemill.jobs.convert.between import merge_clips
    from posemill.jobs.convert.inputs import open_inputs

    sources = open_inputs(inputs, format_name=from_format, size_wh=parse_size(size))
    _warn_unfinished(*sources)
    recipe = Recipe(layout=layout)
    summary = merge_clips(sources, out, recipe=recipe, dry_run=dry_run, watch=_bar("merging"))
    _print_run(summary, as_json=as_json, dry_run=dry_run)


def prepare(
    path: RunOrFile,
    *,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("model_input_data"),
    from_format: FromFormat = None,
    size: PictureSize = None,
    splits: Splits = None,
    layout: Layout = None,
    normalize: Normalize = "none",
    interpolate: Interpolate = 0,
    fill: Fill = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Write {split}_keypoints.npz, the input of a model, and {split}_stats.json."""
    from posemill.jobs.convert.inputs import ClipInput
    from posemill.jobs.convert.prepare import check_splits
    from posemill.jobs.convert.prepare import prepare as prepare_splits

    recipe = _recipe(layout, normalize, interpolate, fill)
    source = ClipInput(path, format_name=from_format, size_wh=parse_size(size), splits=splits)
    _warn_unfinished(source)
    if dry_run:
        check_splits(source, watch=_bar("looking"))
        _print_dry_run(source, recipe, "npz", as_json=as_json)
        return
    made = prepare_splits(source, out, recipe=recipe, watch=_bar("preparing"))
    _print_prepared(made, as_json=as_json)


def export(
    path: RunOrFile,
    *,
    to: Annotated[str, typer.Option(metavar="FORMAT", help=_FORMATS_HELP)],
    out: Annotated[Path, typer.Option(help="The file, or the folder, to write.")],
    from_format: FromFormat = None,
    size: PictureSize = None,
    splits: Splits = None,
    layout: Layout = None,
    normalize: Normalize = "none",
    interpolate: Interpolate = 0,
    fill: Fill = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Write a run or a file in another format."""
    from posemill.jobs.convert.between import export_clips
    from posemill.jobs.convert.inputs import ClipInput

    recipe = _recipe(layout, normalize, interpolate, fill)
    source = ClipInput(path, format_name=from_format, size_wh=parse_size(size), splits=splits)
    _warn_unfinished(source)
    if dry_run:
        _print_dry_run(source, recipe, to, as_json=as_json)
        return
    summary = export_clips(source, to, out, recipe=recipe, watch=_bar("exporting"))
    _print_exported(summary, as_json=as_json)


def import_(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A file or folder of any format.")],
    *,
    out: Annotated[Path, typer.Option(help="Folder of the new run.")],
    from_format: FromFormat = None,
    size: PictureSize = None,
    splits: Splits = None,
    layout: Layout = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Make a run of a file: pkl, npz, .pose, OpenPose JSON, COCO, HDF5 and the others."""
    from posemill.formats.shared.contract import Recipe
    from posemill.jobs.convert.between import import_clips
    from posemill.jobs.convert.inputs import ClipInput

    source = ClipInput(path, format_name=from_format, size_wh=parse_size(size), splits=splits)
    recipe = Recipe(layout=layout)
    summary = import_clips(source, out, recipe=recipe, dry_run=dry_run, watch=_bar("importing"))
    _print_run(summary, as_json=as_json, dry_run=dry_run)


def _warn_unfinished(*sources: Any) -> None:
    for source in sources:
        if source.run is not None and not source.run.is_finished:
            typer.secho(f"posemill: {source.path} is not finished; what it holds so far is used "
                        f"(posemill status {source.path})", err=True, fg="yellow")  # fmt: skip


def _recipe(layout: str | None, normalize: str, interpolate: int, fill: Any) -> Recipe:
    from posemill.formats.shared.contract import Recipe

    return Recipe(layout=layout, normalize=normalize, interpolate=interpolate, fill=fill)


def _bar(description: str) -> Any:
    from posemill.cli.progress import track

    def watch(clips: Iterator[PoseClip], total: int | None) -> Iterator[PoseClip]:
        return track(clips, description, total, len)

    return watch


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
    _say_losses(loss for each in made for loss in each.losses)


def _print_exported(summary: Summary, *, as_json: bool) -> None:
    if as_json:
        print_json(vars(summary))
        return
    counts = f"{summary.num_clips} clips, {summary.num_frames} frames"
    typer.echo(f"{summary.path}: {counts} ({summary.format_name})")
    _say_losses(summary.losses)


def _say_losses(losses: Iterable[str]) -> None:
    if words := "; ".join(dict.fromkeys(losses)):
        typer.echo(f"not kept: {words}", err=True)


def _print_run(summary: Any, *, as_json: bool, dry_run: bool) -> None:
    if as_json:
        print_json(vars(summary) | {"dry_run": dry_run})
        return
    for split, count in summary.splits.items():
        typer.echo(f"{split}: {count} clips")
    again = summary.equal_duplicates
    typer.echo(
        f"{summary.path}: {summary.num_clips} clips, {summary.num_frames} frames"
        + (f"; {again} came twice, equal" if again else "")
        + (f"; {summary.num_failures} failures kept" if summary.num_failures else "")
        + (" (not written: --dry-run)" if dry_run else "")
    )
    _say_losses(summary.losses)


def _print_dry_run(source: Any, recipe: Recipe, format_name: str, *, as_json: bool) -> None:
    from posemill.jobs.convert.between import count_export

    summary, layouts = count_export(source, format_name, recipe=recipe, watch=_bar("counting"))
    result = {"splits": summary.splits, "num_clips": summary.num_clips,
              "num_frames": summary.num_frames, "layout": layouts, "recipe": summary.recipe,
              "losses": summary.losses, "dry_run": True}  # fmt: skip
    if as_json:
        print_json(result)
        return
    typer.echo(f"{summary.num_clips} clips, {summary.num_frames} frames as {', '.join(layouts)} "
               f"({format_name}); nothing was written: --dry-run")  # fmt: skip
    _say_losses(summary.losses)
