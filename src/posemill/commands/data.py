"""`merge`, `prepare`, `export`, `import`: keypoints into other files, and back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from posemill.commands.arguments import (
    AnyPath,
    ExportShape,
    Reading,
    Shape,
    Skeleton,
    here,
    run_and_file,
)
from posemill.commands.declaring import AsJson, Ask, Command, DryRun, Overwrite, RunOrFile
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

NewRun = Annotated[
    AnyPath,
    setting("Folder of the new run, or a file to export.", flags=("--out", "--output-path")),
]
ReplaceRun = Annotated[bool, setting("Replace a run that is there.")]


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
    **shape: Annotated[Any, Shape],
) -> list[Prepared]:
    """Write {split}_keypoints.npz, the input of a model, and {split}_stats.json.

    Files of other splits in the folder stay. `progress` is bars on a terminal or a line in a
    notebook; False for none.
    """
    from posemill.jobs.convert import prepare as preparing

    if people > 1:
        shape["person"] = "all"
    expect_folder(out, kind="what `prepare` writes")
    with _opened(Shape(**shape), run) as ((source,), recipe):
        return preparing.prepare(
            source,
            here(out),
            recipe=recipe,
            people=people,
            overwrite=overwrite,
            watch=_bar("preparing", progress),
        )


def export(
    run: RunOrFile,
    to: Annotated[
        str | None,
        setting(
            "By default what the ending of --out says.",
            flags=("--to",),
            metavar="FORMAT",
            choices="posemill.formats:known_formats",
        ),
    ] = None,
    out: Annotated[AnyPath, setting("The file, or the folder, to write.")] = "",
    *,
    overwrite: Overwrite = False,
    progress: bool | None = None,
    **shape: Annotated[Any, ExportShape],
) -> Summary:
    """Write a run or a file in another format.

    The result says what was written and what the format cannot hold. `progress` is as in
    `prepare`.
    """
    from posemill.jobs.convert.between import export_clips

    target = format_of(to, out)
    with _opened(ExportShape(**shape), run) as ((source,), recipe):
        return export_clips(
            source,
            target,
            here(out),
            recipe=recipe,
            overwrite=overwrite,
            watch=_bar("exporting", progress),
        )


def _show_written(
    print_result: Callable[[Any], None], *, is_prepare: bool = False
) -> Callable[..., None]:
    """Return what shows the result of `prepare` or `export`, or what it would be."""

    def show(ask: Ask, *, dry_run: DryRun = False, as_json: AsJson = False) -> None:
        with warnings_as_notes():
            if dry_run:
                _print_dry_run(ask.keywords, is_prepare=is_prepare, as_json=as_json)
            else:
                (print_json if as_json else print_result)(ask())

    return show


def format_of(to: str | None, out: AnyPath) -> str:
    """Return the format that is asked for, or that the ending of the file says."""
    from posemill.formats import format_for

    if not os.fspath(out):
        raise ConfigError("{--out}: expected the file or the folder to write, got none")
    return format_for(Path(out), to)


def import_run(
    path: Annotated[
        AnyPath, setting("A file or folder of any format.", metavar="FILE", argument=True)
    ],
    out: NewRun,
    *,
    skeleton: Skeleton = None,
    overwrite: ReplaceRun = False,
    dry_run: DryRun = False,
    progress: bool | None = None,
    **reading: Annotated[Any, Reading],
) -> RunSummary:
    """Make a run of a file or folder of any format that `export` writes."""
    from posemill.jobs.convert.between import merge_clips

    expect_folder(out, kind="a run")
    with _opened(Shape(skeleton=skeleton, person="all", **reading), path) as (sources, recipe):
        return merge_clips(
            sources,
            here(out),
            recipe=recipe,
            kind="import",
            overwrite=overwrite,
            dry_run=dry_run,
            watch=_bar("importing", progress),
        )


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
    overwrite: ReplaceRun = False,
    dry_run: DryRun = False,
    progress: bool | None = None,
    **reading: Annotated[Any, Reading],
) -> RunSummary:
    """Join runs or result files into one run. Clips that occur twice must be equal."""
    from posemill.jobs.convert.between import merge_clips

    with _opened(Shape(skeleton=skeleton, person="all", **reading), *runs) as (sources, recipe):
        return merge_clips(
            sources,
            here(out),
            recipe=recipe,
            overwrite=overwrite,
            dry_run=dry_run,
            watch=_bar("merging", progress),
        )


def _show_new_run(ask: Ask, *, as_json: AsJson = False) -> None:
    values = ask.keywords
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
        summary = ask(out=run)
    _print_run(summary, as_json=as_json, dry_run=dry_run)
    if file is not None and not dry_run:
        exported = export(run, out=file, skeleton=values.get("skeleton"), overwrite=overwrite)
        say("{file} written; the run is {run}", file=file, run=run, err=True)
        say_losses(exported.losses)


@contextmanager
def _opened(shape: Shape, *paths: AnyPath) -> Iterator[tuple[list[ClipInput], Recipe]]:
    """Yield runs or files and what is done to their clips; warn of what is odd about them."""
    sources = [shape.open(path, person=shape.person) for path in paths]
    _warn_unfinished(*sources)
    yield sources, shape.recipe()
    template = (
        "{path} does not hold labels and sizes of pictures; those of the run beside it, {run}, "
        "were taken"
    )
    for source in sources:
        if source.uses_run_beside and source.run_beside is not None:
            warn_caller(Message(template, path=source.path, run=source.run_beside.folder))


def _warn_unfinished(*sources: ClipInput) -> None:
    for source in sources:
        if source.run is None or source.run.is_finished:
            continue
        rows = [row for row in source.run.unfinished_clips() if row[0] in (source.splits or ())]
        cut = [clip_id for _, clip_id, num_frames, _ in rows if num_frames]
        missing = [clip_id for _, clip_id, num_frames, _ in rows if not num_frames]
        words = [Message("{path} is not finished; what it holds so far is used", path=source.path)]
        for template, names in (
            ("{num:clip is|clips are} cut: {first}", cut),
            ("{num:clip is|clips are} missing: {first}", missing),
        ):
            if names:
                first = ", ".join([*names[:_NAMED], *(["…"] if len(names) > _NAMED else [])])
                words.append(Message(template, num=len(names), first=first))
        words.append(Message("look: posemill status {path!q}", path=source.path))
        warn_caller(join("; ", words))


def _bar(description: str, progress: bool | None) -> Watch:
    return lambda items, total: track(items, description, total, len, progress=progress)


def _print_prepared(prepared: list[Prepared]) -> None:
    rows = [
        (
            *(split.split, split.stats["num_clips"], split.stats["num_frames"]),
            *(f"{split.stats['missing_rate']:.1%}", split.stats["longest_gap"], split.path),
        )
        for split in prepared
    ]
    print_table(("split", "clips", "frames", "missing", "longest gap", "file"), rows)
    say_losses(loss for split in prepared for loss in split.losses)


def _print_exported(summary: Summary) -> None:
    say(
        "{path}: {num_clips:clip|clips}, {num_frames:frame|frames} ({format_name})", **vars(summary)
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
    parts = [Message("{path}: {num_clips:clip|clips}, {num_frames:frame|frames}", **vars(summary))]
    if again := summary.equal_duplicates:
        parts.append(Message("{num} came twice, equal", num=again))
    if summary.num_failures:
        parts.append(Message("{num} failures kept", num=summary.num_failures))
    if dry_run:
        parts.append(Message("nothing was written: {--dry-run}"))
    say(join("; ", parts))
    say_losses(summary.losses)


def _print_dry_run(values: Mapping[str, Any], *, is_prepare: bool, as_json: bool) -> None:
    from posemill.jobs.convert.between import count_export
    from posemill.jobs.convert.prepare import check_splits

    to = "npz" if is_prepare else format_of(values.get("to"), values.get("out", ""))
    known = ExportShape.all_fields()
    shape = ExportShape(**{name: value for name, value in values.items() if name in known})
    with _opened(shape, values["run"]) as ((source,), recipe):
        if is_prepare:
            check_splits(source, watch=_bar("looking", None))
        summary, layouts = count_export(source, to, recipe=recipe, watch=_bar("counting", None))
    if as_json:
        names = ("splits", "num_clips", "num_frames", "recipe", "losses")
        counts = {name: getattr(summary, name) for name in names}
        print_json(counts | {"layout": layouts, "dry_run": True})
        return
    say(
        "{num_clips:clip|clips}, {num_frames:frame|frames} as {layouts} ({format_name}); nothing "
        "was written: {--dry-run}",
        **vars(summary),
        layouts=", ".join(layouts),
    )
    say_losses(summary.losses)


COMMANDS = (
    Command("merge", merge, _show_new_run, skip=("splits",)),
    Command("prepare", prepare, _show_written(_print_prepared, is_prepare=True)),
    Command("export", export, _show_written(_print_exported)),
    Command("import", import_run, _show_new_run),
)
