"""`posemill.prepare`, `export`, `import_run`, `merge`: keypoints into other files, and back."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from posemill.api.arguments import AnyPath, Names, Size, here, names_of, parse_size
from posemill.api.progress import track
from posemill.clips.inputs import ClipInput, open_inputs
from posemill.errors import ConfigError
from posemill.formats import format_for
from posemill.formats.shared.contract import Recipe, Summary
from posemill.jobs.convert import prepare as preparing
from posemill.jobs.convert.between import (
    Item,
    RunSummary,
    Watch,
    count_export,
    export_clips,
    import_clips,
    merge_clips,
)
from posemill.jobs.convert.prepare import Prepared
from posemill.outputs import expect_folder
from posemill.terminal import counted, quoted, warn_caller

_NAMED = 5  # clips of an unfinished run, in a warning


def prepare(
    run: AnyPath,
    out: AnyPath = "model_input_data",
    *,
    splits: Names = None,
    skeleton: str | int | None = None,
    normalize: str = "none",
    interpolate: int = 0,
    fill: Any = None,
    from_format: str | None = None,
    size: Size = None,
    person: str | int = "main",
    overwrite: bool = False,
    progress: bool | None = None,
) -> list[Prepared]:
    """Write `{split}_keypoints.npz`, the input of a model, and `{split}_stats.json`; say which.

    Args:
        run: A run, or a file of any format.
        out: The folder; files of other splits in it stay.
        splits: Only these; all by default.
        skeleton: Points to write, `holistic-143` by default.
        normalize: `shoulders` (their midpoint at 0, their width 1), `bbox` (the clip's box from -1
            to 1) or `none`.
        interpolate: Gaps of up to so many frames are closed by straight lines.
        fill: What stands for missing points beside their mask: `zero` (default), `nan` or
            `interpolate`.
        from_format: Format of a file; found out by default.
        size: `"1280x720"` or `(1280, 720)`: of pictures whose size a file does not say.
        person: Of several people in a frame: `main`, the largest, followed along the clip; or a
            number, 2 for the next largest.
        overwrite: Replace files that posemill did not write for this source; without it they
            stay, and the call is refused.
        progress: Bars on a terminal or a line in a notebook; False for none.
    """
    source, recipe = _open_shaped(
        run, splits=splits, skeleton=skeleton, normalize=normalize, interpolate=interpolate,
        fill=fill, from_format=from_format, size=size, person=person,
    )  # fmt: skip
    expect_folder(out, kind="what `prepare` writes")
    prepared = preparing.prepare(
        source, here(out), recipe=recipe, overwrite=overwrite, watch=_bar("preparing", progress)
    )
    _note_run_beside(source)
    return prepared


def export(
    run: AnyPath,
    to: str | None = None,
    out: AnyPath = "",
    *,
    splits: Names = None,
    skeleton: str | int | None = None,
    normalize: str = "none",
    interpolate: int = 0,
    fill: Any = None,
    from_format: str | None = None,
    size: Size = None,
    replace: Mapping[str, str] | None = None,
    person: str | int = "main",
    overwrite: bool = False,
    progress: bool | None = None,
) -> Summary:
    """Write a run or a file in another format; return what was written and what it cannot hold.

    Args:
        run: A run, or a file of any format.
        to: `npz`, `pkl`, `coco`, `hdf5` …: a key of `posemill.formats.FORMATS`; by default what
            the ending of `out` says.
        out: The file, or the folder, to write.
        splits: As in `prepare`, as are all others.
        skeleton: Points to write; the format's usual ones by default.
        normalize: See `prepare`.
        interpolate: See `prepare`.
        fill: See `prepare`.
        from_format: See `prepare`.
        size: See `prepare`.
        replace: `{"frames": "annotation"}`: txt and openpose write `train/annotation/x.txt` for
            `train/frames/x.jpg`.
        person: See `prepare`; `all` in formats that hold several people.
        overwrite: See `prepare`.
        progress: See `prepare`.
    """
    source, recipe = _open_shaped(
        run, splits=splits, skeleton=skeleton, normalize=normalize, interpolate=interpolate,
        fill=fill, from_format=from_format, size=size, replace=replace, person=person,
    )  # fmt: skip
    target = format_of(to, out)
    summary = export_clips(
        source, target, here(out), recipe=recipe, overwrite=overwrite,
        watch=_bar("exporting", progress),
    )  # fmt: skip
    _note_run_beside(source)
    return summary


def format_of(to: str | None, out: AnyPath) -> str:
    """Return the format that is asked for, or that the ending of the file says."""
    if not os.fspath(out):
        raise ConfigError("out: expected the file or the folder to write, got none")
    return to or format_for(Path(out))


def count(
    run: AnyPath, to: str, *, as_files: bool = False, progress: bool | None = None, **shape: Any
) -> tuple[Summary, list[str]]:
    """Return what `export` would write and in which skeletons; nothing is written.

    Args:
        run: A run, or a file of any format.
        to: A format.
        as_files: As `prepare` does, a file for each split.
        progress: See `prepare`.
        shape: All other arguments of `export`.
    """
    source, recipe = _open_shaped(run, **shape)
    if as_files:
        preparing.check_splits(source, watch=_bar("looking", progress))
    return count_export(source, to, recipe=recipe, watch=_bar("counting", progress))


def import_run(
    path: AnyPath,
    out: AnyPath,
    *,
    splits: Names = None,
    skeleton: str | int | None = None,
    from_format: str | None = None,
    size: Size = None,
    overwrite: bool = False,
    dry_run: bool = False,
    progress: bool | None = None,
) -> RunSummary:
    """Make a run of a file: pkl, npz, .pose, OpenPose JSON, COCO, HDF5 and the others.

    Args:
        path: A file or folder of any format.
        out: Folder or URI of the new run.
        splits: As in `prepare`, as are all others.
        skeleton: Points to keep; all by default.
        from_format: See `prepare`.
        size: See `prepare`.
        overwrite: Replace a run that is there.
        dry_run: Read and count, write nothing.
        progress: See `prepare`.
    """
    source, recipe = _open_shaped(
        path, splits=splits, skeleton=skeleton, from_format=from_format, size=size, person="all"
    )
    expect_folder(out, kind="a run")
    summary = import_clips(
        source, Path(out), recipe=recipe, overwrite=overwrite, dry_run=dry_run,
        watch=_bar("importing", progress),
    )  # fmt: skip
    _note_run_beside(source)
    return summary


def merge(
    runs: Iterable[AnyPath],
    out: AnyPath,
    *,
    skeleton: str | int | None = None,
    from_format: str | None = None,
    size: Size = None,
    overwrite: bool = False,
    dry_run: bool = False,
    progress: bool | None = None,
) -> RunSummary:
    """Join runs or files into one run; clips that come twice must be equal.

    Args:
        runs: Runs, or files of any format.
        out: Folder or URI of the new run.
        skeleton: Points to keep; all by default.
        from_format: See `prepare`, as for all others.
        size: See `prepare`.
        overwrite: Replace a run that is there.
        dry_run: Read and count, write nothing.
        progress: See `prepare`.
    """
    if isinstance(runs, str):
        raise TypeError(f"runs: expected several paths, as [{runs!r}, …], got one text")
    paths = [Path(path) for path in runs]
    sources = open_inputs(paths, format_name=from_format, size_wh=parse_size(size))
    _warn_unfinished(*sources)
    recipe = Recipe(layout=None if skeleton is None else str(skeleton))
    summary = merge_clips(
        sources, Path(out), recipe=recipe, overwrite=overwrite, dry_run=dry_run,
        watch=_bar("merging", progress),
    )  # fmt: skip
    _note_run_beside(*sources)
    return summary


def _open_shaped(
    run: AnyPath,
    *,
    splits: Names = None,
    skeleton: str | int | None = None,
    normalize: str = "none",
    interpolate: int = 0,
    fill: Any = None,
    from_format: str | None = None,
    size: Size = None,
    replace: Mapping[str, str] | None = None,
    person: str | int = "main",
) -> tuple[ClipInput, Recipe]:
    layout = None if skeleton is None else str(skeleton)
    recipe = Recipe(
        layout=layout, normalize=normalize, interpolate=interpolate, fill=fill,
        replace=dict(replace or {}),
    )  # fmt: skip
    source = ClipInput(
        Path(run), format_name=from_format, size_wh=parse_size(size), splits=names_of(splits),
        person=person,
    )  # fmt: skip
    _warn_unfinished(source)
    return source, recipe


def _note_run_beside(*sources: ClipInput) -> None:
    for source in sources:
        if source.uses_run_beside and source.run_beside is not None:
            warn_caller(
                f"{source.path} does not hold labels and sizes of pictures; those of the run "
                f"beside it, {source.run_beside.folder}, were taken"
            )


def _warn_unfinished(*sources: ClipInput) -> None:
    for source in sources:
        if source.run is not None and not source.run.is_finished:
            warn_caller(
                f"{source.path} is not finished; what it holds so far is used"
                f"{_describe_unfinished(source)} (posemill status {quoted(source.path)})",
            )


def _describe_unfinished(source: ClipInput) -> str:
    """Return which clips of a run are cut, and which are missing."""
    assert source.run is not None
    cut, missing = list[str](), list[str]()
    for split, clip_id, num_frames, length in source.run.unfinished_clips():
        if split not in (source.splits or ()):
            continue
        if num_frames:
            cut.append(f"{clip_id} ({num_frames} of {length or '?'} frames)")
        else:
            missing.append(clip_id)
    said = f"; {counted(len(cut), 'clips are')} cut: {_first_of(cut)}" if cut else ""
    if missing:
        said += f"; {counted(len(missing), 'clips are')} missing: {_first_of(missing)}"
    return said


def _first_of(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + ", …" * (len(names) > _NAMED)


def _bar(description: str, progress: bool | None) -> Watch:
    def watch(items: Iterator[Item], total: int | None, /) -> Iterator[Item]:
        return track(items, description, total, len, progress=progress)

    return watch
