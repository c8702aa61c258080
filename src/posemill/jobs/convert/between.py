"""Runs into files, files into runs, several into one."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from posemill.blocks import ClipBlock
from posemill.clips.inputs import ClipInput
from posemill.errors import FormatError, RunError
from posemill.files import atomic_folder, naming, new_folders, remove_leftovers
from posemill.formats import get_format
from posemill.formats.shared.contract import ClipStream, Format, Recipe, Summary
from posemill.formats.shared.folders import INDEX
from posemill.jobs.convert.beside import goes_beside, write_beside
from posemill.jobs.convert.shaping import (
    check_recipe,
    dropped_points,
    layout_for,
    layout_of_run,
    recorded,
    shape_block,
    shape_clip,
)
from posemill.machine.read_ahead import closing_stream, read_ahead
from posemill.messages import Message, join
from posemill.outputs import Outputs
from posemill.records import PoseClip
from posemill.runs.lock import holder_of
from posemill.runs.manifest import MANIFEST_NAME, Manifest, check_folder
from posemill.runs.queries import Failure
from posemill.runs.reader import Run, open_run
from posemill.runs.writer import RunWriter

_SHOWN = 10
Item = TypeVar("Item", PoseClip, ClipBlock)


class Watch(Protocol):
    """Sees clips or blocks of them pass: a progress bar."""

    def __call__(self, items: Iterator[Item], total: int | None, /) -> Iterator[Item]:
        """Yield the items, whose `len` is their frames; `total` is all frames, None: not known."""


def unwatched(items: Iterator[Item], total: int | None, /) -> Iterator[Item]:
    """Return the items as they are."""
    return items


@contextmanager
def writing(out: Path) -> Iterator[None]:
    """Turn what a full disk or a forbidden folder raises into an error of ours."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        reason = Message(str(getattr(error, "strerror", None) or error))
        file = next((path for path in (out, *out.parents) if path.is_file()), None)
        if isinstance(error, FileExistsError | NotADirectoryError) and file is not None:
            reason = Message("{file} is a file, expected a folder; choose another name", file=file)
        raise FormatError("{out}: cannot be written: {reason}", out=out, reason=reason) from error


def export_clips(
    source: ClipInput,
    format_name: str,
    out: Path,
    *,
    recipe: Recipe | None = None,
    overwrite: bool = False,
    watch: Watch = unwatched,
) -> Summary:
    """Write a run or a file in another format; return what was written.

    Raises:
        ConfigError: The format cannot hold what the recipe makes, or something is in the way.
        FormatError: The clips cannot be read, or do not go into the format.
    """
    form = get_format(format_name)
    recipe = check_recipe(source, recipe, form)
    _expect_name(out, form.suffix)
    if form.suffix and not out.suffix:  # as readers of the format look for it
        out = out.with_name(out.name + form.suffix)
    outputs = Outputs(source.path, overwrite=overwrite)
    is_beside = goes_beside(out, recipe)
    if form.suffix or out.suffix == ".pose":
        outputs.claim_file(out)
    elif not is_beside:
        outputs.claim_folder(out, marker=INDEX)
    shaping = Shaping(recipe, form)
    clips = read_ahead(source.clips(layout=layout_of_run(source, recipe, form)))
    stream = watch(clips, source.num_frames)
    with writing(out), closing_stream(stream), new_folders(out.parent):
        remove_leftovers(out)
        shaped, whole = shaping.shape(source, stream), recorded(recipe, source)
        if is_beside:
            summary = write_beside(form, shaped, out, recipe=whole, outputs=outputs)
        else:
            summary = form.write(shaped, out, recipe=whole)
            outputs.record(out)
    shaping.note(summary, source)
    return summary


def _expect_name(out: Path, suffix: str = "") -> None:
    """Raise where a folder that is there is given, and a new file or folder has to be named."""
    if out.name in ("", "..") or (suffix and out.is_dir()):
        template = "{out} is a folder; expected the name of a new folder, as {example}"
        if suffix:
            template = "{out} is a folder; expected the name of a file, as {example}"
        raise FormatError(template, out=out, example=out / f"keypoints{suffix}")


class Shaping:
    """Clips as they go into a format, or into a run, and what that does to them: `dropped` points.

    Args:
        form: None for a run, which holds any skeleton.
        recipe: What is asked for; `whole` is that, and what was done to the clips before.
    """

    def __init__(self, recipe: Recipe, form: Format | None = None) -> None:
        self._form, self._recipe, self.whole = form, recipe, recipe
        self.dropped: dict[str, None] = {}

    def shape(self, source: ClipInput, clips: Iterator[Item]) -> Iterator[Item]:
        """Yield the clips of a source, or blocks of them, as the recipe wants them."""
        for clip in clips:
            frames = clip.frames if isinstance(clip, ClipBlock) else clip
            skeleton_name = source.skeleton_of(frames)
            layout = self._recipe.layout or frames.skeleton_name
            if self._form is not None:
                layout = layout_for(skeleton_name, self._recipe, self._form)
            if isinstance(clip, ClipBlock):
                shaped = shape_block(clip, self._recipe, layout)
            else:
                shaped = shape_clip(clip, self._recipe, layout)
                self.whole = self.whole.after(shaped)
            if words := dropped_points(skeleton_name, layout):
                self.dropped[words] = None
            yield shaped

    def note(self, summary: Summary, source: ClipInput | None = None) -> None:
        """Add to a summary what is lost and what was done, now and before."""
        summary.losses = (*summary.losses, *self.dropped)
        summary.recipe = self.whole.to_dict()
        num_failed = 0 if source is None else sum(source.num_failed().values())
        if num_failed and source is not None and getattr(self._form, "mirrors", False):
            without_file = Message(
                "{num_failed:picture has|pictures have} no file, as no keypoints came of them "
                "(posemill status {run!q} --failures)",
                num_failed=num_failed,
                run=source.name,
            )
            summary.losses = (*summary.losses, without_file)


def count_export(
    source: ClipInput, format_name: str, *, recipe: Recipe, watch: Watch = unwatched
) -> tuple[Summary, list[str]]:
    """Return what `export_clips` would write, and in which layouts; nothing is written.

    Raises:
        ConfigError, FormatError: As `export_clips` would.
    """
    form = get_format(format_name)
    recipe = check_recipe(source, recipe, form)
    shaping = Shaping(recipe, form)
    clips = watch(source.clips(layout=layout_of_run(source, recipe, form)), source.num_frames)
    stream = ClipStream(form, shaping.shape(source, clips), Path(), recipe)
    with naming(source.path):
        layouts = {clip.skeleton_name for clip in stream}
    shaping.note(stream.summary, source)
    return stream.summary, sorted(layouts)


@dataclass
class RunSummary(Summary):
    """What was written into a run; stands for its folder wherever a path is expected.

    Args:
        equal_duplicates: Clips that came again with the same content, and were written once.
        num_failures: Rows of the inputs' ledgers that say what gave no keypoints; all are kept.
    """

    format_name: str = "run"
    equal_duplicates: int = 0
    num_failures: int = 0

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def run(self) -> Run:
        """The run, to be read."""
        return open_run(self.path)


def _expect_free(out: Path, *, overwrite: bool) -> None:
    """Raise where a run cannot be written: something is there, or is worked on."""
    _expect_name(out)
    has_run = check_folder(out)
    if has_run and not overwrite:
        raise RunError(
            "{out} holds a run already; choose another folder, or replace it by {--overwrite}",
            out=out,
        )
    if has_run and holder_of(out) is not None:
        raise RunError("{out} is worked on; wait for its end, or: posemill stop {out!q}", out=out)


def merge_clips(
    sources: Sequence[ClipInput],
    out: Path,
    *,
    recipe: Recipe | None = None,
    kind: str = "merge",
    overwrite: bool = False,
    dry_run: bool = False,
    watch: Watch = unwatched,
) -> RunSummary:
    """Write the clips of several runs or files as one run; of one file, `kind` is `import`.

    A clip that comes twice (same split and id) is written once if both are equal; all that are
    not are named in the error, and nothing is written. What gave no keypoints in the inputs is
    kept with its reasons.

    Raises:
        RunError: Clips, skeletons or normalisations do not go together, or `out` is taken.
    """
    recipe = recipe or Recipe()
    _expect_free(out, overwrite=overwrite)
    summary, conflicts, shaping = RunSummary(out), _Conflicts(), Shaping(recipe)
    totals = [source.num_frames for source in sources]
    total = None if None in totals else sum(number or 0 for number in totals)
    clips = watch(_clips_that_go_together(sources, recipe, shaping, conflicts), total)
    runs = [source.run for source in sources if source.run is not None]
    skeleton_name = recipe.layout or (runs[0].skeleton_name if runs else "")
    with ExitStack() as stack:
        writer: RunWriter | None = None
        if not dry_run:
            stack.enter_context(writing(out))
            stack.enter_context(new_folders(out.parent))
            folder = stack.enter_context(atomic_folder(out, marker=MANIFEST_NAME))
        for clip in clips:
            if not conflicts.is_new(clip):
                continue
            summary.count(clip)
            skeleton_name = clip.skeleton_name
            if writer is None and not dry_run:
                manifest = _manifest(sources, kind, skeleton_name, recipe)
                writer = stack.enter_context(RunWriter(folder, manifest))
            if writer is not None:
                writer.add(clip)
        conflicts.raise_if_any(kind)
        failures = _failures(sources, conflicts)
        summary.num_failures = len(failures)
        if not dry_run:
            # The longest gap that may have been closed is known only now.
            manifest = _manifest(sources, kind, skeleton_name, shaping.whole)
            writer = writer or stack.enter_context(RunWriter(folder, manifest))
            writer.replace_manifest(manifest)
            for failure in failures:
                writer.add_failure(failure)
    summary.equal_duplicates = conflicts.num_equal
    shaping.note(summary)
    return summary


def _clips_that_go_together(
    sources: Sequence[ClipInput], recipe: Recipe, shaping: Shaping, conflicts: _Conflicts
) -> Iterator[PoseClip]:
    skeletons: dict[str, Path] = {}
    normalized: dict[str, Path] = {}
    for source in sources:
        conflicts.source = source
        clips = source.clips(layout=recipe.layout, has_room_for_failures=True)
        for clip in shaping.shape(source, clips):
            skeletons.setdefault(clip.skeleton_name, source.path)
            normalized.setdefault(clip.normalized, source.path)
            if len(skeletons) > 1:
                raise RunError(
                    "skeletons do not go together: {inputs}; give a {--skeleton} that both can "
                    "become",
                    inputs=_what_each_has(skeletons),
                )
            if len(normalized) > 1:
                raise RunError(
                    "normalisations do not go together: {inputs}; merge what they were made of, "
                    "and normalise the result",
                    inputs=_what_each_has(normalized),
                )
            yield clip


def _what_each_has(inputs: dict[str, Path]) -> Message:
    parts = [
        Message("{path} has {value}", path=path, value=value) for value, path in inputs.items()
    ]
    return join(", ", parts)


class _Conflicts:
    """Remembers every clip by a digest, and names those that came twice and differ."""

    def __init__(self) -> None:
        self.source: ClipInput | None = None
        self.num_equal = 0
        self.seen: dict[tuple[str, str], tuple[bytes, ClipInput | None]] = {}
        self._named: list[str] = []

    def is_new(self, clip: PoseClip) -> bool:
        """Return True for a clip that did not come before."""
        key, digest = (clip.split, clip.clip_id), digest_of(clip)
        if key not in self.seen:
            self.seen[key] = (digest, self.source)
            return True
        before, giver = self.seen[key]
        if before == digest:
            self.num_equal += 1
        elif giver is not None and self.source is not None:
            line = Message(
                "{split}/{clip_id} ({path} and {other_path})",
                split=clip.split,
                clip_id=clip.clip_id,
                path=giver.path,
                other_path=self.source.path,
            )
            self._named.append(line)
        return False

    def raise_if_any(self, kind: str) -> None:
        """Raise with the names of the clips that differ."""
        if not self._named:
            return
        lines: list[str] = self._named[:_SHOWN]
        if len(self._named) > _SHOWN:
            lines = [*lines, Message("and {number} more", number=len(self._named) - _SHOWN)]
        raise (FormatError if kind == "import" else RunError)(
            "{num_clips} clips came twice with different content; nothing was written:\n  {lines}",
            num_clips=len(self._named),
            lines=join("\n  ", lines),
        )


def digest_of(clip: PoseClip) -> bytes:
    """Return a digest of all that a clip holds: equal clips have equal ones."""
    digest = hashlib.blake2b(digest_size=16)
    words = (clip.skeleton_name, clip.label, clip.fps, sorted(clip.extra.items()), clip.image_paths)
    digest.update(repr(words).encode("utf-8", "surrogateescape"))
    # NaN has many bit patterns; the mask says where they are.
    points = clip.points.copy()
    points[~clip.mask] = 0
    for array in (points, clip.mask, clip.scores, clip.sizes_wh, clip.frame_indices):
        digest.update(array.tobytes())
    if clip.others is not None and len(clip.others.points):
        for array in (clip.others.counts, np.nan_to_num(clip.others.points), clip.others.scores):
            digest.update(array.tobytes())
    worlds = [clip.world] if clip.others is None else [clip.world, clip.others.world]
    for world in worlds:
        if world is not None:
            digest.update(np.nan_to_num(world).tobytes())
    return digest.digest()


def _failures(sources: Sequence[ClipInput], conflicts: _Conflicts) -> list[Failure]:
    """Return what gave no keypoints, of each clip from one input.

    That is the one that gave the clip: what failed elsewhere was made good. Where no input has
    keypoints of it, it is the first that tried.
    """
    givers = {name: giver for name, (_, giver) in conflicts.seen.items()}
    return [
        failure
        for source in sources
        for failure in source.failures()
        if givers.setdefault((failure.split, failure.clip_id), source) is source
    ]


def _manifest(
    sources: Sequence[ClipInput], kind: str, skeleton_name: str, recipe: Recipe
) -> Manifest:
    facts: list[dict[str, Any]] = [source.origin() for source in sources]
    engines = [each.get("manifest", {}).get("engine") or {} for each in facts]
    engine = engines[0] if all(each == engines[0] for each in engines) else {}
    return Manifest(
        skeleton_name=skeleton_name,
        kind=kind,
        options={"recipe": recipe.to_dict()},
        engine=engine,
        source={"inputs": facts},
    )
