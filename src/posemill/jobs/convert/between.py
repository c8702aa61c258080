"""Runs into files, files into runs, several into one."""

from __future__ import annotations

import hashlib
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from posemill.blocks import ClipBlock
from posemill.clips.inputs import ClipInput
from posemill.errors import FormatError, RunError
from posemill.files import atomic_folder, cache_folder, new_folders, remove_leftovers
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
    shape_clip,
)
from posemill.machine.read_ahead import closing_stream, read_ahead
from posemill.messages import Message, join
from posemill.outputs import Outputs
from posemill.places import uri_of
from posemill.records import PoseClip
from posemill.runs.lock import holder_of
from posemill.runs.manifest import MANIFEST_NAME, Manifest, check_folder
from posemill.runs.publishing import publish_run, refuse_taken
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
    shaping = _Shaping(source, form, recipe)
    stream = watch(read_ahead(shaping.clips()), source.num_frames)
    with writing(out), closing_stream(stream) as clips, new_folders(out.parent):
        remove_leftovers(out)
        shaped, whole = shaping.shape(clips), recorded(recipe, source)
        if is_beside:
            summary = write_beside(form, shaped, out, recipe=whole, outputs=outputs)
        else:
            summary = form.write(shaped, out, recipe=whole)
            outputs.record(out)
    return shaping.note(summary)


def _expect_name(out: Path, suffix: str = "") -> None:
    """Raise where a folder that is there is given, and a new file or folder has to be named."""
    if out.name in ("", "..") or (suffix and out.is_dir()):
        template = "{out} is a folder; expected the name of a new folder, as {example}"
        if suffix:
            template = "{out} is a folder; expected the name of a file, as {example}"
        raise FormatError(template, out=out, example=out / f"keypoints{suffix}")


class _Shaping:
    """Clips as they go into a format, and what that does to them."""

    def __init__(self, source: ClipInput, form: Format, recipe: Recipe) -> None:
        self._source, self._form, self._recipe, self._whole = source, form, recipe, recipe
        self._dropped: dict[str, None] = {}

    def clips(self) -> Iterator[PoseClip]:
        """Yield the clips of the source, with what the format needs of them."""
        layout = layout_of_run(self._source, self._recipe, self._form)
        return self._source.clips(layout=layout)

    def shape(self, clips: Iterator[PoseClip]) -> Iterator[PoseClip]:
        """Yield the clips as the recipe wants them."""
        for clip in clips:
            skeleton_name = self._source.skeleton_of(clip)
            layout = layout_for(skeleton_name, self._recipe, self._form)
            shaped = shape_clip(clip, self._recipe, layout)
            self._whole = self._whole.after(shaped)
            if words := dropped_points(skeleton_name, layout):
                self._dropped[words] = None
            yield shaped

    def note(self, summary: Summary) -> Summary:
        """Return the summary with what is lost and what was done, now and before."""
        summary.losses = (
            *self._form.losses,
            *summary.losses,
            *self._dropped,
            *self._pictures_without_file(),
        )
        summary.recipe = self._whole.to_dict()
        return summary

    def _pictures_without_file(self) -> Iterator[str]:
        """Yield in words how many pictures failed, of a format with a file for each."""
        num_failed = sum(self._source.num_failed().values())
        if num_failed and getattr(self._form, "mirrors", False):
            yield Message(
                "{num_failed:picture has|pictures have} no file, as no keypoints came of them "
                "(posemill status {run!q} --failures)",
                num_failed=num_failed,
                run=self._source.name,
            )


def count_export(
    source: ClipInput, format_name: str, *, recipe: Recipe, watch: Watch = unwatched
) -> tuple[Summary, list[str]]:
    """Return what `export_clips` would write, and in which layouts; nothing is written.

    Raises:
        ConfigError, FormatError: As `export_clips` would.
    """
    form = get_format(format_name)
    recipe = check_recipe(source, recipe, form)
    shaping = _Shaping(source, form, recipe)
    shaped = shaping.shape(watch(shaping.clips(), source.num_frames))
    stream = ClipStream(form, shaped, source.path, recipe)
    layouts = {clip.skeleton_name for clip in stream}
    stream.summary.path = Path()  # nothing is written
    return shaping.note(stream.summary), sorted(layouts)


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

    @property
    def name(self) -> str:
        """What users call it: its folder or its URI."""
        return uri_of(self.path) or str(self.path)

    def __fspath__(self) -> str:
        return self.name

    @property
    def run(self) -> Run:
        """The run, to be read."""
        return open_run(self.path)


@contextmanager
def _new_run(out: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes the run when the block ends well."""
    if (uri := uri_of(out)) is not None:
        cache = cache_folder()
        cache.mkdir(parents=True, exist_ok=True)
        with writing(cache), tempfile.TemporaryDirectory(prefix="merge-", dir=cache) as folder:
            yield Path(folder)
            publish_run(Path(folder), uri)
        return
    with writing(out), new_folders(out.parent), atomic_folder(out, marker=MANIFEST_NAME) as folder:
        yield folder


def _expect_free(out: Path, *, overwrite: bool) -> None:
    """Raise where a run cannot be written: something is there, or is worked on."""
    if (uri := uri_of(out)) is not None:
        refuse_taken(uri)
        return
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
    summary, conflicts = RunSummary(out), _Conflicts()
    totals = [source.num_frames for source in sources]
    total = None if None in totals else sum(each or 0 for each in totals)
    dropped: dict[str, None] = {}
    layout = recipe.layout
    clips = watch(_shaped(sources, recipe, conflicts, dropped), total)
    with ExitStack() as stack:
        folder = None if dry_run else stack.enter_context(_new_run(out))
        writer: RunWriter | None = None
        for clip in clips:
            if not conflicts.is_new(clip):
                continue
            summary.count(clip)
            whole = recipe.after(clip)
            if writer is None and folder is not None:
                manifest = _manifest(sources, kind, clip.skeleton_name, whole)
                writer = stack.enter_context(RunWriter(folder, manifest))
            elif writer is not None and whole != recipe:
                # Inputs may differ in this: a run says the longest gap that may have been closed.
                writer.replace_manifest(_manifest(sources, kind, clip.skeleton_name, whole))
            recipe = whole
            if writer is not None:
                writer.add(clip)
        conflicts.raise_if_any(kind)
        for failure in _failures(sources, conflicts):
            summary.num_failures += 1
            if writer is None and folder is not None:  # a run of failures alone
                manifest = _manifest(sources, kind, layout or _skeleton_of(sources), recipe)
                writer = stack.enter_context(RunWriter(folder, manifest))
            if writer is not None:
                writer.add_failure(failure)
    summary.equal_duplicates, summary.losses = conflicts.num_equal, tuple(dropped)
    summary.recipe = recipe.to_dict()
    return summary


def _skeleton_of(sources: Sequence[ClipInput]) -> str:
    """Return what the first run among the inputs is for."""
    return next((source.run.skeleton_name for source in sources if source.run is not None), "")


def _shaped(
    sources: Sequence[ClipInput], recipe: Recipe, conflicts: _Conflicts, dropped: dict[str, None]
) -> Iterator[PoseClip]:
    skeletons: dict[str, Path] = {}
    normalized: dict[str, Path] = {}
    for source in sources:
        conflicts.source = source
        for clip in source.clips(layout=recipe.layout, has_room_for_failures=True):
            shaped = shape_clip(clip, recipe, recipe.layout or clip.skeleton_name)
            if words := dropped_points(source.skeleton_of(clip), shaped.skeleton_name):
                dropped[words] = None
            skeletons.setdefault(shaped.skeleton_name, source.path)
            if len(skeletons) > 1:
                raise RunError(
                    "skeletons do not go together: {inputs}; give a {--skeleton} that both can "
                    "become",
                    inputs=_what_each_has(skeletons),
                )
            normalized.setdefault(shaped.normalized, source.path)
            if len(normalized) > 1:
                raise RunError(
                    "normalisations do not go together: {inputs}; merge what they were made of, "
                    "and normalise the result",
                    inputs=_what_each_has(normalized),
                )
            yield shaped


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
        self._seen: dict[tuple[str, str], tuple[bytes, ClipInput | None]] = {}
        self._named: list[str] = []

    def is_new(self, clip: PoseClip) -> bool:
        """Return True for a clip that did not come before."""
        key, digest = (clip.split, clip.clip_id), digest_of(clip)
        if key not in self._seen:
            self._seen[key] = (digest, self.source)
            return True
        before, giver = self._seen[key]
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

    def giver_of(self, split: str, clip_id: str) -> ClipInput | None:
        """Return the input that gave a clip, None if none did."""
        return self._seen.get((split, clip_id), (b"", None))[1]

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


def _failures(sources: Sequence[ClipInput], conflicts: _Conflicts) -> Iterator[Failure]:
    """Yield what gave no keypoints, of each clip from one input.

    That is the one that gave the clip: what failed elsewhere was made good. Where no input has
    keypoints of it, it is the first that tried.
    """
    tried: dict[tuple[str, str], ClipInput] = {}
    for source in sources:
        for failure in source.failures():
            name = failure.split, failure.clip_id
            chosen = conflicts.giver_of(*name) or tried.setdefault(name, source)
            if chosen is source:
                yield failure


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
