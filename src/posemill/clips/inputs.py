"""A run folder or an exported file behind one face: what is looked at, and what is converted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

from posemill.blocks import ClipBlock, join_clips
from posemill.clips.people import choose_person, parse_person
from posemill.errors import FormatError, PosemillError, RunError
from posemill.files import folder_kind, near_path
from posemill.formats import detect_format, get_format
from posemill.formats.shared.contract import Format, Size, same_sizes
from posemill.messages import Message
from posemill.places import uri_of
from posemill.plugins import hint
from posemill.records import PoseClip, match_splits, usual_split
from posemill.runs.home import local_copy
from posemill.runs.queries import Failure
from posemill.runs.reader import Outline as Outline
from posemill.runs.reader import Run, open_run
from posemill.runs.shards import BlockPlan, part_for

ClipName = tuple[str, str]  # split, clip_id
Item = TypeVar("Item", PoseClip, ClipBlock)


class ClipInput:
    """A run, finished or not, or a file or folder in one of the formats.

    Everything is read anew at each call; nothing is kept in memory. `size_wh` is the pictures'
    size, for clips that do not say it.
    """

    def __init__(
        self,
        path: Path,
        *,
        format_name: str | None = None,
        size_wh: Size | None = None,
        splits: Sequence[str] | None = None,
        person: str | int = "main",
    ) -> None:
        self.name = uri_of(path) or str(path)
        self.person = parse_person(person)
        self._size_wh = size_wh
        self._splits = None if splits is None else tuple(dict.fromkeys(splits))
        self.run: Run | None = None
        self.uses_run_beside = False  # so far
        self._format: Format | None = None
        self.path = path = local_copy(path)
        if not path.exists():
            template = "{path}: no such file or folder; expected a run or an exported file{near}"
            raise PosemillError(template, path=path, near=near_path(path))
        if format_name is not None or folder_kind(path) != "extraction":
            self._format = get_format(format_name) if format_name else detect_format(path)
            return
        self.run = run = open_run(path)
        # One in which everything failed has reasons to show.
        if not run.num_frames and not run.failures():
            yet = "" if run.is_finished else " yet"
            raise RunError(
                "{name}: the run holds no keypoints{yet}; see how far it is with: posemill status "
                "{name!q}",
                name=self.name,
                yet=yet,
            )
        if self._splits is not None:
            known_splits, unknown = match_splits(self._splits, run.splits)
            self._splits = tuple(known_splits)
            if unknown:
                raise RunError(self._no_split(unknown, run.splits))

    def _no_split(self, missing: Sequence[str], known: Collection[str]) -> Message:
        names, splits = ", ".join(map(repr, missing)), ", ".join(known) or "none"
        near = hint(missing[0], known)
        template = "{name} has no split {missing}; it has {known}{hint}"
        return Message(template, name=self.name, missing=names, known=splits, hint=near)

    @cached_property
    def run_beside(self) -> Run | None:
        """The run that lies beside a file, `x.run` beside `x.pkl`; None where none does."""
        folder = self.path.parent / f"{self.path.stem}.run"
        if self.run is not None or folder_kind(folder) != "extraction":
            return None
        try:
            return open_run(folder)
        except PosemillError:
            return None  # no reason to refuse the file

    @property
    def kind(self) -> str:
        """`run`, or the name of the format."""
        return "run" if self._format is None else self._format.name

    @property
    def num_frames(self) -> int | None:
        """How many frames there are, None where only reading would tell."""
        if self.run is None:
            return None
        return sum(each.frames_out for each in self.run.counts if each.split in self._run_splits)

    @property
    def splits(self) -> tuple[str, ...] | None:
        """The splits that will be read, None where only reading would tell."""
        return self._run_splits or self._splits

    @property
    def _run_splits(self) -> tuple[str, ...]:
        """The splits of a run that will be read; none of a file."""
        return () if self.run is None else self._splits or self.run.splits

    def clips(
        self, *, layout: str | None = None, may_lack: Collection[str] = ()
    ) -> Iterator[PoseClip]:
        """Yield the clips, those of a run split by split.

        What the `layout` they will be turned into does not need may be left out of those of a run:
        they then have a smaller skeleton than `skeleton_of` says. Splits that `may_lack` clips may
        be empty, or only have failures.
        """
        return self.chosen(self._all_clips(layout), may_lack)

    def clips_so_far(self, *, layout: str | None = None) -> Iterator[PoseClip]:
        """Yield what `clips` does; that a split of a run has none, or none yet, is no error."""
        return self.clips(layout=layout, may_lack=() if self.run is None else self.run.splits)

    def samples(self) -> Iterator[PoseClip]:
        """Yield what `clips_so_far` does, of a run's clips only a frame of their middle."""
        if self.run is None:
            yield from self.clips_so_far()
            return
        for split in self._run_splits:
            for clip in self.run.middle_frames(split):
                yield clip.with_size(self._size_wh)

    def outlines(self, *, is_grouped: bool = False) -> Iterator[Outline]:
        """Yield the clips without their keypoints; grouped, those of a run may come as one."""
        if self.run is None:
            for clip in self.clips_so_far():
                names = clip.split, clip.clip_id, clip.skeleton_name
                present = tuple(clip.present.sum(0).tolist())
                sizes = Counter[Size](map(tuple, clip.sizes_wh.tolist()))
                done = clip.normalized, clip.interpolated, clip.smoothed
                yield Outline(*names, len(clip), present, sizes, *done)
            return
        for split in self._run_splits:
            for outline in self.run.outlines(split, is_grouped=is_grouped):
                sizes = Counter[Size]()
                for size, count in outline.sizes_wh.items():
                    sizes[size if min(size) > 0 else self._size_wh or size] += count
                yield replace(outline, sizes_wh=sizes)

    def pick(self, names: Iterable[ClipName]) -> Iterator[PoseClip]:
        """Yield the clips of these names, in any order."""
        if self.run is None:
            wanted = set(names)
            yield from (each for each in self.clips() if (each.split, each.clip_id) in wanted)
            return
        for split, clip_id in names:
            yield self._shown(self.run.clip(clip_id, split))

    def plan_splits(self) -> dict[str, list[BlockPlan]]:
        """Return the blocks of each split of a run as it is now; nothing for a file."""
        if self.run is None:
            return {}
        return {split: list(self.run.plan_blocks(split)) for split in self._run_splits}

    def read_block(self, plan: BlockPlan, *, layout: str | None = None) -> ClipBlock:
        """Return many clips of a run at once; several threads may call it."""
        assert self.run is not None
        block = self.run.read_block(plan, _part_of(self.run, layout))
        has_sizes = self._size_wh is None or (block.frames.sizes_wh > 0).all()
        if has_sizes and block.frames.others is None:
            return block
        return join_clips([self._shown(clip) for clip in block.clips])

    def _shown(self, clip: PoseClip) -> PoseClip:
        return choose_person(clip.with_size(self._size_wh), self.person)

    def skeleton_of(self, clip: PoseClip) -> str:
        """Return the skeleton a clip has in the input, as whichever `layout` it was read."""
        return clip.skeleton_name if self.run is None else self.run.skeleton_name

    def chosen(self, items: Iterator[Item], may_lack: Collection[str] = ()) -> Iterator[Item]:
        """Yield the items of the chosen splits; raise if one has none that may not."""
        seen, known = set(may_lack), dict[str, None]()
        wanted = None if self._splits is None else {usual_split(name) for name in self._splits}
        for item in items:
            known[item.split] = None
            if wanted is None or usual_split(item.split) in wanted:
                seen.add(item.split)
                yield item
        kind = RunError if self.run is not None else FormatError
        if not seen and not known:
            why = Message("; what failed, and why: posemill view {name!q}", name=self.name)
            splits = ", ".join(map(repr, self._splits or ()))
            of_splits = Message(" of split {splits}", splits=splits) if splits else ""
            template = "{name}: holds no clips{of_splits}; expected some{advice}"
            advice = why if self.failures() else ""
            raise kind(template, name=self.name, of_splits=of_splits, advice=advice)
        _, missing = match_splits(self.splits or (), seen)
        if missing and self.run is None:
            raise kind(self._no_split(missing, known))
        if missing:
            raise kind(
                "{name}: split {missing} holds no clips; expected some: leave it out "
                "({--splits:{seen}})",
                name=self.name,
                missing=", ".join(map(repr, missing)),
                seen=" ".join(sorted(seen)),
            )

    def _all_clips(self, layout: str | None) -> Iterator[PoseClip]:
        if self.run is not None:
            for split in self._run_splits:
                for clip in self.run.clips(split, skeleton_name=_part_of(self.run, layout)):
                    yield self._shown(clip)
        elif self._format is not None:
            for clip in self._format.read(self.path, size_wh=self._size_wh):
                yield self._shown(self._completed(clip))

    def _completed(self, clip: PoseClip) -> PoseClip:
        """Return a clip of a file with what the run beside it knows and the file does not say."""
        outline, beside = self._known_beside.get((clip.split, clip.clip_id), (None, clip))
        if outline is None or outline.num_frames != len(clip):
            return clip
        changes: dict[str, Any] = {}
        if beside.label and not clip.label:
            changes = {"label": beside.label, "extra": {**beside.extra, **clip.extra}}
        if len(outline.sizes_wh) == 1 and not clip.sizes_wh.any():
            changes["sizes_wh"] = same_sizes(next(iter(outline.sizes_wh)), len(clip))
        self.uses_run_beside = self.uses_run_beside or bool(changes)
        return replace(clip, **changes) if changes else clip

    @cached_property
    def _known_beside(self) -> dict[ClipName, tuple[Outline, PoseClip]]:
        """The outline and one frame of each clip of the run beside a file."""
        run = self.run_beside
        if run is None:
            return {}
        known = {}
        for split in run.splits:
            outlines = {outline.clip_id: outline for outline in run.outlines(split)}
            for clip in run.middle_frames(split):
                known[split, clip.clip_id] = outlines[clip.clip_id], clip
        return known

    @property
    def has_people(self) -> bool:
        """Whether clips may come with several people."""
        return self.person == "all" and getattr(self._format, "holds_people", True)

    @property
    def has_loose_pictures(self) -> bool:
        """Whether a run says that pictures it was made of do not follow each other in time."""
        return self.run is not None and _has_loose_pictures(self.run.manifest.source)

    @property
    def pictures_root(self) -> str:
        """The folder that the pictures of a run were found in; empty for anything else."""
        source = {} if self.run is None else self.run.manifest.source
        is_tree = source.get("layout") in ("frames", "pictures")
        return str(source.get("path") or "") if is_tree else ""

    def failures(self) -> list[Failure]:
        """Return what gave no keypoints in the chosen splits of a run; a file does not say."""
        failures = [] if self.run is None else self.run.failures()
        return [each for each in failures if self._splits is None or each.split in self._splits]

    def num_failed(self, unit: Literal["frames", "clips"] = "frames") -> dict[str, int]:
        """Return how many frames or clips gave no keypoints, by split; empty where nobody knows."""
        counts = {} if self.run is None else {counts.split: counts for counts in self.run.counts}
        return {
            split: getattr(counts[split], f"{unit}_failed")
            for split in self._splits or counts  # in the order that was asked for
            if split in counts
        }

    def facts(self) -> dict[str, Any]:
        """Return what the input says about its making: a run's manifest, or the format."""
        if self.run is not None:
            return {"is_finished": self.run.is_finished, **asdict(self.run.manifest)}
        assert self._format is not None
        facts: dict[str, Any] = {"format": self.kind, "losses": self._format.all_losses}
        return facts | ({"bytes": self.path.stat().st_size} if self.path.is_file() else {})

    def picture_facts(self) -> dict[str, Any]:
        """Return the manifest that says where the pictures are: of the run, or of that beside."""
        run = self.run or self.run_beside
        return {} if run is None else asdict(run.manifest)

    def origin(self) -> dict[str, Any]:
        """Return what is known of the input, for the manifest of what is made of it."""
        facts: dict[str, Any] = {"path": self.name, "kind": self.kind}
        if self.run is not None:
            facts["manifest"] = asdict(self.run.manifest)
            facts["num_failures"] = len(self.failures())
        return facts


def _part_of(run: Run, layout: str | None) -> str:
    """Return what of a run's skeleton is read to make a layout of it."""
    return part_for(run.skeleton_name, layout or run.skeleton_name)


def _has_loose_pictures(source: Mapping[str, Any]) -> bool:
    """Return whether a manifest's source, or one of a run merged into it, had loose pictures."""
    tracking = source.get("tracking")
    if isinstance(tracking, Mapping):  # a folder with one picture has no gaps to be closed
        return bool(tracking.get("num_alone", 0) > len(tracking.get("alone", ())))
    inputs = [each for each in source.get("inputs") or () if isinstance(each, Mapping)]
    return source.get("layout") == "pictures" or any(
        _has_loose_pictures((each.get("manifest") or {}).get("source") or {}) for each in inputs
    )
