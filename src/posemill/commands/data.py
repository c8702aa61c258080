"""`merge`, `prepare`, `export`, `import`: keypoints into other files, and back."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from posemill.commands.arguments import (
    AnyPath,
    ExportShape,
    Reading,
    Shape,
    here,
    run_and_file,
    text_of,
)
from posemill.commands.declaring import AsJson, Ask, Command, DryRun, Overwrite, RunOrFile, door
from posemill.commands.printing import print_json, print_table, say, warnings_as_notes
from posemill.commands.progress import track
from posemill.errors import ConfigError, RunError
from posemill.messages import Message, join
from posemill.outputs import Outputs, expect_folder
from posemill.settings import setting
from posemill.terminal import warn_caller

if TYPE_CHECKING:
    from posemill.clips.inputs import ClipInput
    from posemill.formats.shared.contract import Recipe, Summary
    from posemill.jobs.convert.between import RunSummary, Watch
    from posemill.jobs.convert.prepare import Prepared

_NAMED = 5  # clips of an unfinished run, in a warning
_LAYOUT = {"--layout": "--skeleton"}

NewRun = Annotated[
    AnyPath,
    setting("Folder of the new run, or a file to export.", flags=("--out", "--output-path")),
]
Skeleton = Annotated[
    str | None,
    setting(
        "Points to keep; all by default. 143 and 543 are short for holistic-143 and holistic-543.",
        convert=text_of,
        metavar="NAME",
        choices="posemill.skeletons:skeleton_names",
        is_open=True,
    ),
]


@door(lambda: Shape)
def prepare(
    run: Annotated[
        AnyPath,
        setting(
            "A run folder, or a file of any format.",
            flags=("--keypoints-file",),
            metavar="RUN_OR_FILE",
            argument=True,
        ),
    ],
    out: Annotated[
        AnyPath, setting("Folder for the files.", flags=("--out", "--output-dir"))
    ] = "model_input_data",
    *,
    people: Annotated[
        int,
        setting(
            "Write N people of each frame, the largest first, each followed along the clip: "
            "keypoints (frames, N, points, 3). For models of yours: train takes one person.",
            least=1,
            metavar="N",
        ),
    ] = 1,
    overwrite: Overwrite = False,
    progress: bool | None = None,
    **shape: Any,
) -> list[Prepared]:
    """Write {split}_keypoints.npz, the input of a model, and {split}_stats.json.

    Files of other splits in the folder stay. `progress` is bars on a terminal or a line in a
    notebook; False for none.
    """
    from posemill.jobs.convert import prepare as preparing

    if people > 1:
        shape["person"] = "all"
    source, recipe = _open_shaped(run, Shape(**shape))
    expect_folder(out, kind="what `prepare` writes")
    prepared = preparing.prepare(
        source,
        here(out),
        recipe=recipe,
        people=people,
        overwrite=overwrite,
        watch=_bar("preparing", progress),
    )
    _note_run_beside(source)
    return prepared


def _show_prepare(ask: Ask, *, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    with warnings_as_notes():
        if dry_run:
            values = {name: value for name, value in ask.values.items() if name != "people"}
            _print_dry_run(count(to="npz", as_files=True, **values), as_json=as_json)
        else:
            _print_prepared(ask(), as_json=as_json)


@door(lambda: ExportShape)
def export(
    run: RunOrFile,
    to: Annotated[
        str | None,
        setting(
            "By default what the ending of --out says.",
            flags=("--to",),
            metavar="FORMAT",
            choices="posemill.formats:known_formats",
            is_open=True,
        ),
    ] = None,
    out: Annotated[AnyPath, setting("The file, or the folder, to write.")] = "",
    *,
    overwrite: Overwrite = False,
    progress: bool | None = None,
    **shape: Any,
) -> Summary:
    """Write a run or a file in another format.

    The result says what was written and what the format cannot hold. `progress` is as in
    `prepare`.
    """
    from posemill.jobs.convert.between import export_clips

    source, recipe = _open_shaped(run, ExportShape(**shape))
    target = format_of(to, out)
    summary = export_clips(
        source,
        target,
        here(out),
        recipe=recipe,
        overwrite=overwrite,
        watch=_bar("exporting", progress),
    )
    _note_run_beside(source)
    return summary


def _show_export(ask: Ask, *, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    with warnings_as_notes():
        if dry_run:
            to = format_of(ask.values.get("to"), ask.values.get("out", ""))
            _print_dry_run(count(**{**ask.values, "to": to}), as_json=as_json)
        else:
            _print_exported(ask(), as_json=as_json)


def format_of(to: str | None, out: AnyPath) -> str:
    """Return the format that is asked for, or that the ending of the file says."""
    from posemill.formats import format_for

    if not os.fspath(out):
        raise ConfigError("{--out}: expected the file or the folder to write, got none")
    return to or format_for(Path(out))


def count(
    run: AnyPath,
    to: str,
    *,
    as_files: bool = False,
    progress: bool | None = None,
    out: AnyPath = "",
    overwrite: bool = False,
    **shape: Any,
) -> tuple[Summary, list[str]]:
    """Return what `export` would write and in which skeletons; nothing is written.

    Args:
        run: A run, or a file of any format.
        to: A format.
        as_files: As `prepare` does, a file for each split.
        progress: See `prepare`.
        out: Not looked at, as is `overwrite`.
        overwrite: See `out`.
        shape: The fields of `Shape`.
    """
    from posemill.jobs.convert import prepare as preparing
    from posemill.jobs.convert.between import count_export

    source, recipe = _open_shaped(run, ExportShape(**shape))
    if as_files:
        preparing.check_splits(source, watch=_bar("looking", progress))
    return count_export(source, to, recipe=recipe, watch=_bar("counting", progress))


@door(lambda: Reading)
def import_run(
    path: Annotated[
        AnyPath, setting("A file or folder of any format.", metavar="FILE", argument=True)
    ],
    out: Annotated[AnyPath, setting("Folder of the new run.")],
    *,
    skeleton: Skeleton = None,
    overwrite: Annotated[bool, setting("Replace a run that is there.")] = False,
    dry_run: DryRun = False,
    progress: bool | None = None,
    **reading: Any,
) -> RunSummary:
    """Make a run of a file or folder of any format that `export` writes."""
    from posemill.jobs.convert.between import merge_clips

    shape = Shape(skeleton=skeleton, person="all", **reading)
    source, recipe = _open_shaped(path, shape)
    expect_folder(out, kind="a run")
    summary = merge_clips(
        [source],
        here(out),
        recipe=recipe,
        kind="import",
        overwrite=overwrite,
        dry_run=dry_run,
        watch=_bar("importing", progress),
    )
    _note_run_beside(source)
    return summary


def _show_import(ask: Ask, *, as_json: AsJson = False) -> None:
    with warnings_as_notes():
        summary = ask()
    _print_run(summary, as_json=as_json, dry_run=ask.values.get("dry_run", False))


@door(lambda: Reading)
def merge(
    runs: Annotated[
        Sequence[AnyPath],
        setting(
            "Runs or result files.",
            flags=("--input-files",),
            metavar="RUN_OR_FILE...",
            argument=True,
        ),
    ],
    out: NewRun,
    *,
    skeleton: Skeleton = None,
    overwrite: Annotated[bool, setting("Replace a run that is there.")] = False,
    dry_run: DryRun = False,
    progress: bool | None = None,
    **reading: Any,
) -> RunSummary:
    """Join runs or result files into one run. Clips that occur twice must be equal."""
    from posemill.clips.inputs import open_inputs
    from posemill.jobs.convert.between import merge_clips

    shape = Shape(skeleton=skeleton, **reading)
    sources = open_inputs(
        [Path(path) for path in runs],
        format_name=shape.from_format,
        size_wh=shape.size,
        splits=shape.splits,
    )
    _warn_unfinished(*sources)
    summary = merge_clips(
        sources,
        here(out),
        recipe=shape.recipe(),
        overwrite=overwrite,
        dry_run=dry_run,
        watch=_bar("merging", progress),
    )
    _note_run_beside(*sources)
    return summary


def _show_merge(ask: Ask, *, as_json: AsJson = False) -> None:
    values = dict(ask.values)
    overwrite, dry_run = values.get("overwrite", False), values.get("dry_run", False)
    run, file = run_and_file(values["out"])
    if file is not None:
        if run.exists() and not overwrite:
            raise RunError(
                "{file} was written before, and its run {run} is there; choose another name for "
                "{--out}, or replace both by {--overwrite:True}",
                file=file,
                run=run,
            )
        Outputs(run, overwrite=overwrite).claim_file(file)
    with warnings_as_notes():
        summary = merge(**{**values, "out": run})
    _print_run(summary, as_json=as_json, dry_run=dry_run)
    if file is not None and not dry_run:
        exported = export(run, out=file, skeleton=values.get("skeleton"), overwrite=overwrite)
        say("{file} written; the run is {run}", file=file, run=run, err=True)
        say_losses(exported.losses)


def _open_shaped(run: AnyPath, shape: Shape) -> tuple[ClipInput, Recipe]:
    recipe = shape.recipe()
    source = shape.open(run, person=shape.person)
    _warn_unfinished(source)
    return source, recipe


def _note_run_beside(*sources: ClipInput) -> None:
    for source in sources:
        if source.uses_run_beside and source.run_beside is not None:
            warn_caller(
                Message(
                    "{path} does not hold labels and sizes of pictures; those of the run beside "
                    "it, {run}, were taken",
                    path=source.path,
                    run=source.run_beside.folder,
                )
            )


def _warn_unfinished(*sources: ClipInput) -> None:
    for source in sources:
        if source.run is None or source.run.is_finished:
            continue
        rows = [row for row in source.run.unfinished_clips() if row[0] in (source.splits or ())]
        cut = [clip_id for _, clip_id, num_frames, _ in rows if num_frames]
        missing = [clip_id for _, clip_id, num_frames, _ in rows if not num_frames]
        words = [Message("{path} is not finished; what it holds so far is used", path=source.path)]
        if cut:
            first = _first_of(cut)
            words.append(Message("{num:clip is|clips are} cut: {first}", num=len(cut), first=first))
        if missing:
            template = "{num:clip is|clips are} missing: {first}"
            words.append(Message(template, num=len(missing), first=_first_of(missing)))
        words.append(Message("look: posemill status {path!q}", path=source.path))
        warn_caller(join("; ", words))


def _first_of(names: Sequence[str]) -> str:
    return ", ".join([*names[:_NAMED], *(["…"] if len(names) > _NAMED else [])])


def _bar(description: str, progress: bool | None) -> Watch:
    def watch(items: Iterator[Any], total: int | None, /) -> Iterator[Any]:
        return track(items, description, total, len, progress=progress)

    return watch


def _print_prepared(made: list[Prepared], *, as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {"path": each.path, "stats_path": each.stats_path, "losses": each.losses}
                | each.stats
                for each in made
            ]
        )
        return
    print_table(
        ("split", "clips", "frames", "missing", "longest gap", "file"),
        [
            (
                each.split,
                each.stats["num_clips"],
                each.stats["num_frames"],
                f"{each.stats['missing_rate']:.1%}",
                each.stats["longest_gap"],
                each.path,
            )
            for each in made
        ],
    )
    say_losses(loss for each in made for loss in each.losses)


def _print_exported(summary: Summary, *, as_json: bool) -> None:
    if as_json:
        print_json(vars(summary))
        return
    say(
        "{path}: {num_clips:clip|clips}, {num_frames:frame|frames} ({format_name})",
        path=summary.path,
        num_clips=summary.num_clips,
        num_frames=summary.num_frames,
        format_name=summary.format_name,
    )
    say_losses(summary.losses)


def say_losses(losses: Iterable[str]) -> None:
    """Say what a file cannot hold of what was written into it."""
    if distinct := list(dict.fromkeys(losses)):
        say("not kept: {losses}", losses=join("; ", distinct), err=True)


def _print_run(summary: Any, *, as_json: bool, dry_run: bool) -> None:
    if as_json:
        print_json(vars(summary) | {"path": str(summary.path), "dry_run": dry_run})
        return
    for split, count in summary.splits.items():
        say("{split}: {num_clips:clip|clips}", split=split, num_clips=count)
    parts = [
        Message(
            "{run}: {num_clips:clip|clips}, {num_frames:frame|frames}",
            run=summary.path,
            num_clips=summary.num_clips,
            num_frames=summary.num_frames,
        )
    ]
    if again := summary.equal_duplicates:
        parts.append(Message("{num} came twice, equal", num=again))
    if summary.num_failures:
        parts.append(Message("{num} failures kept", num=summary.num_failures))
    if dry_run:
        parts.append(Message("nothing was written: {--dry-run}"))
    say(join("; ", parts))
    say_losses(summary.losses)


def _print_dry_run(found: tuple[Summary, list[str]], *, as_json: bool) -> None:
    summary, layouts = found
    result = {
        "splits": summary.splits,
        "num_clips": summary.num_clips,
        "num_frames": summary.num_frames,
        "layout": layouts,
        "recipe": summary.recipe,
        "losses": summary.losses,
        "dry_run": True,
    }
    if as_json:
        print_json(result)
        return
    say(
        "{num_clips:clip|clips}, {num_frames:frame|frames} as {layouts} ({format_name}); nothing "
        "was written: {--dry-run}",
        num_clips=summary.num_clips,
        num_frames=summary.num_frames,
        layouts=", ".join(layouts),
        format_name=summary.format_name,
    )
    say_losses(summary.losses)


COMMANDS = (
    Command("merge", merge, _show_merge, skip=("splits",), aliases=_LAYOUT),
    Command("prepare", prepare, _show_prepare, aliases=_LAYOUT),
    Command("export", export, _show_export, aliases=_LAYOUT),
    Command("import", import_run, _show_import, aliases=_LAYOUT),
)
