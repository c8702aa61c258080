"""Runs into files, files into runs, several into one."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from posemill.clips.inputs import ClipInput
from posemill.errors import FormatError, RunError
from posemill.files import atomic_folder, naming, new_folders, remove_leftovers
from posemill.formats import get_format, own_files
from posemill.formats.shared.contract import ClipStream, Format, Recipe, Summary
from posemill.formats.shared.json_text import INDEX, read_index
from posemill.jobs.convert.shaping import Shaping
from posemill.machine.read_ahead import closing_stream, read_ahead
from posemill.messages import Message, join
from posemill.outputs import Outputs, claim_run
from posemill.records import PoseClip
from posemill.runs.home import holder_of
from posemill.runs.manifest import MANIFEST_NAME, Manifest, check_folder
from posemill.runs.queries import Failure
from posemill.runs.reader import Run, open_run
from posemill.runs.writer import RunWriter

_SHOWN = 10
# What all clips of a run have in common, and what is said where they have not.
_TOGETHER = {
    "skeleton_name": "skeletons do not go together: {inputs}; give a {--skeleton} that both can "
    "become",
    "normalized": "normalisations do not go together: {inputs}; merge what they were made of, and "
    "normalise the result",
}
# Sees clips or blocks of them pass, whose `len` is their frames, and is told how many frames there
# are in all (None: not known): a progress bar.
Watch = Callable[[Iterator[Any], int | None], Iterator[Any]]


def unwatched(items: Iterator[Any], total: int | None) -> Iterator[Any]:
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

    `ConfigError` where the format cannot hold what the recipe makes, or something is in the way;
    `FormatError` where the clips cannot be read, or do not go into the format.
    """
    form = get_format(format_name)
    shaping = Shaping(source, recipe or Recipe(), form)
    _expect_name(out, form.suffix)
    if form.suffix and not out.suffix:  # as readers of the format look for it
        out = out.with_name(out.name + form.suffix)
    outputs = Outputs(source.path, overwrite=overwrite)
    # New folders for a folder of the user's, among what is there.
    is_of_user = out.is_dir() and any(out.iterdir()) and not (out / INDEX).exists()
    is_beside = bool(shaping.recipe.replace) and is_of_user
    if form.suffix or out.suffix == ".pose":
        outputs.claim_file(out)
    elif not is_beside:
        outputs.claim_folder(out, marker=INDEX, own=own_files)
    stream = watch(read_ahead(source.clips(layout=shaping.layout)), source.num_frames)
    with writing(out), closing_stream(stream), new_folders(out.parent):
        remove_leftovers(out)
        if is_beside:
            shaped = shaping.shape(stream)
            summary = _write_beside(form, shaped, out, recipe=shaping.recipe, outputs=outputs)
        else:
            summary = form.write(shaping.shape(stream), out, recipe=shaping.recipe)
            outputs.record(out)
    shaping.note(summary)
    return summary


def _expect_name(out: Path, suffix: str = "") -> None:
    """Raise where a folder that is there is given, and a new file or folder has to be named."""
    template = "{out} is a folder; expected the name of a new folder, as {example}"
    if suffix:
        template = "{out} is a folder; expected the name of a file, as {example}"
    if out.name in ("", "..") or (suffix and out.is_dir()):
        raise FormatError(template, out=out, example=out / f"keypoints{suffix}")


def count_export(
    source: ClipInput, format_name: str, *, recipe: Recipe, watch: Watch = unwatched
) -> tuple[Summary, list[str]]:
    """Return what `export_clips` would write, and in which layouts; errors as there."""
    form = get_format(format_name)
    shaping = Shaping(source, recipe, form)
    clips = watch(source.clips(layout=shaping.layout), source.num_frames)
    stream = ClipStream(form, shaping.shape(clips), Path(), shaping.recipe)
    with naming(source.path):
        layouts = {clip.skeleton_name for clip in stream}
    shaping.note(stream.summary)
    return stream.summary, sorted(layouts)


def _write_beside(
    form: Format, clips: Iterator[PoseClip], out: Path, *, recipe: Recipe, outputs: Outputs
) -> Summary:
    """Write the folders with new names into a dataset; nothing else in it is touched.

    Each of them is whole or not there, and has an index of its own.
    """
    with tempfile.TemporaryDirectory(prefix=".posemill-", dir=out) as temporary:
        made = Path(temporary) / "made"
        summary = form.write(clips, made, recipe=recipe)
        header, *records = read_index(made)
        by_folder: dict[str, list[dict[str, object]]] = {}
        for record in records:
            folder, place = _split_place(str(record["place"]), {*recipe.replace.values()})
            by_folder.setdefault(folder, []).append({**record, "place": place})
        for folder in by_folder:
            outputs.claim_folder(out / folder, marker=INDEX, own=own_files)
        for folder, lines in by_folder.items():
            text = "".join(json.dumps(line) + "\n" for line in [header, *lines])
            (made / folder / INDEX).write_text(text, encoding="utf-8")
            target = out / folder
            if target.exists():
                target.rename(Path(temporary) / "old")
                shutil.rmtree(Path(temporary) / "old")
            target.parent.mkdir(parents=True, exist_ok=True)
            (made / folder).rename(target)
            outputs.record(target)
    summary.path = out
    return summary


def _split_place(place: str, names: set[str]) -> tuple[str, str]:
    """Return the path of a clip's files up to the folder that has a new name, and the rest."""
    parts = PurePosixPath(place).parts
    for number, part in enumerate(parts, start=1):
        if part in names:
            return "/".join(parts[:number]), "/".join(parts[number:])
    raise FormatError(
        "{--replace}: {place!r} lies in no folder called {names}, and {--out} is a "
        "folder with other files; choose a new folder",
        place=place,
        names=" or ".join(sorted(names)),
    )


@dataclass
class RunSummary(Summary):
    """What was written into a run; stands for its folder wherever a path is expected."""

    format_name: str = "run"
    equal_duplicates: int = 0  # clips that came again with the same content, and were written once
    num_failures: int = 0  # what gave no keypoints in the inputs; all is kept

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def run(self) -> Run:
        """The run, to be read."""
        return open_run(self.path)


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

    A clip that comes twice (same split and id) is written once if both are equal. What gave no
    keypoints in the inputs is kept with its reasons. `RunError`, and nothing is written, where
    clips, skeletons or normalisations do not go together, or `out` is taken.
    """
    recipe = recipe or Recipe()
    _expect_free(out, overwrite=overwrite)
    if not sources:
        raise RunError("expected runs or exported files to merge, got none")
    joined, summary = _Joined(sources, recipe), RunSummary(out)
    totals = [source.num_frames for source in sources]
    total = None if None in totals else sum(number or 0 for number in totals)
    runs = [source.run.skeleton_name for source in sources if source.run is not None]
    with ExitStack() as stack:
        if not dry_run:
            stack.enter_context(writing(out))
            stack.enter_context(new_folders(out.parent))
            folder = stack.enter_context(atomic_folder(out, marker=MANIFEST_NAME))
        clips = filter(joined.is_new, watch(joined.clips(), total))
        first = list(islice(clips, 1))
        usual = recipe.layout or next(iter(runs), "")
        manifest = Manifest(first[0].skeleton_name if first else usual, kind=kind)
        writer = None if dry_run else stack.enter_context(RunWriter(folder, manifest))
        for clip in chain(first, clips):
            summary.count(clip)
            if writer is not None:
                writer.add(clip)
        joined.raise_if_any_differ(kind)
        failures = joined.failures()
        summary.num_failures, summary.equal_duplicates = len(failures), joined.num_equal
        if writer is not None:
            # The longest gap that may have been closed is known only now.
            writer.replace_manifest(_completed(manifest, sources, joined.recipe))
            for failure in failures:
                writer.add_failure(failure)
    summary.losses, summary.recipe = (*joined.dropped,), joined.recipe.to_dict()
    return summary


def _expect_free(out: Path, *, overwrite: bool) -> None:
    """Raise where a run cannot be written: something is there, or is worked on."""
    _expect_name(out)
    if not check_folder(out):
        return
    if not overwrite:
        raise RunError(
            "{out} holds a run already; choose another folder, or replace it by {--overwrite}",
            out=out,
        )
    claim_run(out)
    if holder_of(out) is not None:
        raise RunError("{out} is worked on; wait for its end, or: posemill stop {out!q}", out=out)


class _Joined:
    """The clips of several sources, each remembered by a digest.

    `recipe` is what is asked for, and what was done to the clips before.
    """

    def __init__(self, sources: Sequence[ClipInput], recipe: Recipe) -> None:
        self._sources, self._source = sources, sources[0]
        self._asked = self.recipe = recipe
        self.dropped: dict[str, None] = {}
        self.num_equal = 0
        self._seen: dict[tuple[str, str], tuple[bytes, ClipInput]] = {}
        self._differing: list[str] = []

    def clips(self) -> Iterator[PoseClip]:
        """Yield all clips; raise where they do not go together."""
        givers: dict[str, dict[str, Path]] = {name: {} for name in _TOGETHER}
        for source in self._sources:
            self._source, shaping = source, Shaping(source, self._asked, None)
            failed = {failure.split for failure in source.failures()}
            clips = source.clips(layout=self._asked.layout, may_lack=failed)
            for clip in shaping.shape(clips):
                self.recipe = self.recipe.after(clip)
                for name, template in _TOGETHER.items():
                    givers[name].setdefault(getattr(clip, name), source.path)
                    if len(givers[name]) > 1:
                        pairs = givers[name].items()
                        has = (Message("{path} has {value}", path=p, value=v) for v, p in pairs)
                        raise RunError(template, inputs=join(", ", has))
                yield clip
            self.dropped |= shaping.dropped

    def is_new(self, clip: PoseClip) -> bool:
        """Return True for a clip that did not come before."""
        key, digest = (clip.split, clip.clip_id), digest_of(clip)
        if key not in self._seen:
            self._seen[key] = digest, self._source
            return True
        before, giver = self._seen[key]
        if before == digest:
            self.num_equal += 1
        else:
            template = "{split}/{clip_id} ({path} and {other_path})"
            names = {"split": clip.split, "clip_id": clip.clip_id}
            paths = {"path": giver.path, "other_path": self._source.path}
            self._differing.append(Message(template, **names, **paths))
        return False

    def raise_if_any_differ(self, kind: str) -> None:
        """Raise with the names of the clips that came twice and differ."""
        if self._differing:
            raise (FormatError if kind == "import" else RunError)(
                "{num_clips} clips came twice with different content; nothing was written:\n  "
                "{lines}",
                num_clips=len(self._differing),
                lines=join("\n  ", self._differing[:_SHOWN]),
            )

    def failures(self) -> list[Failure]:
        """Return what gave no keypoints, of each clip from one input.

        That is the one that gave the clip: what failed elsewhere was made good. Where no input has
        keypoints of it, it is the first that tried.
        """
        givers = {name: giver for name, (_, giver) in self._seen.items()}
        return [
            failure
            for source in self._sources
            for failure in source.failures()
            if givers.setdefault((failure.split, failure.clip_id), source) is source
        ]


def digest_of(clip: PoseClip) -> bytes:
    """Return a digest of all that a clip holds: equal clips have equal ones."""
    words = (clip.skeleton_name, clip.label, clip.fps, sorted(clip.extra.items()), clip.image_paths)
    digest = hashlib.blake2b(repr(words).encode("utf-8", "surrogateescape"), digest_size=16)
    arrays = [clip.points, clip.mask, clip.scores, clip.sizes_wh, clip.frame_indices, clip.world]
    if (others := clip.others) is not None:
        counts = others.counts if len(others.points) else None
        arrays += [counts, others.points, others.scores, others.world]
    for array in arrays:
        if array is not None:  # NaN has many bit patterns
            digest.update(np.nan_to_num(array).tobytes())
    return digest.digest()


def _completed(manifest: Manifest, sources: Sequence[ClipInput], recipe: Recipe) -> Manifest:
    """Return the manifest with what was joined, and how: the engine if it is that of all."""
    inputs: list[dict[str, Any]] = [source.origin() for source in sources]
    engine, *others = (origin.get("manifest", {}).get("engine") or {} for origin in inputs)
    return replace(
        manifest,
        options={"recipe": recipe.to_dict()},
        engine=engine if all(other == engine for other in others) else {},
        source={"inputs": inputs},
    )
