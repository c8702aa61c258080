"""`ClipList`, what every layout ends in, and the collector it is built with."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from posemill.decoders.opening import natural_key
from posemill.errors import SourceError
from posemill.files import readable
from posemill.messages import Message, join
from posemill.plugins import hint
from posemill.records import Clip, match_splits, sort_splits, usual_split

if TYPE_CHECKING:
    from posemill.sources.tracking import Tracking


@dataclass
class SplitTotals:
    """How much one split holds."""

    num_clips: int = 0
    num_frames: int = 0  # of those clips whose number is known
    num_uncounted: int = 0  # clips (videos) of which it is not known before decoding


@dataclass(frozen=True, repr=False)
class ClipList(Sequence[Clip]):
    """The clips of a dataset, ordered by split and name."""

    clips: tuple[Clip, ...]
    layout: str  # they were read as
    root: str  # the path the user gave
    # Changes when a clip or a frame is added, removed, renamed or written anew; not by a move.
    fingerprint: str
    num_ignored: int = 0  # files that are neither picture nor video, hidden ones among them
    problems: tuple[str, ...] = ()  # what does not fit, in sentences
    tracking: Tracking | None = None  # which folders are tracked; None where nobody has looked

    def __len__(self) -> int:
        return len(self.clips)

    @overload
    def __getitem__(self, index: int) -> Clip: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Clip, ...]: ...
    def __getitem__(self, index: int | slice) -> Clip | tuple[Clip, ...]:
        return self.clips[index]

    def __repr__(self) -> str:
        return f"ClipList({self.root!r}, layout={self.layout!r}, {self.totals})"

    @property
    def totals(self) -> dict[str, SplitTotals]:
        """What each split holds, in the order of the clips; printed before work starts."""
        totals: dict[str, SplitTotals] = {}
        for clip in self.clips:
            split = totals.setdefault(clip.split, SplitTotals())
            split.num_clips += 1
            split.num_frames += clip.num_frames or 0
            split.num_uncounted += clip.num_frames is None
        return totals


@dataclass
class Collector:
    """Takes the clips a layout finds; `finish` checks them and makes the list."""

    layout: str
    root: str
    wanted_splits: Sequence[str] = ()  # empty for all
    num_ignored: int = 0
    problems: list[str] = field(default_factory=list)
    seen_splits: set[str] = field(default_factory=set)
    _found: dict[tuple[str, str], Clip] = field(default_factory=dict)

    def say(self, template: str, **values: Any) -> None:
        """Keep a sentence about what does not fit."""
        self.problems.append(Message(template, **values))

    def wants(self, split: str) -> bool:
        """Return whether clips of that split are asked for, and remember that it exists."""
        self.seen_splits.add(split)
        return not self.wanted_splits or usual_split(split) in map(usual_split, self.wanted_splits)

    def add(self, clip: Clip, *, where: Message | str = "") -> None:
        """Keep a clip if its split is wanted; `where`, for errors, is its line of a list."""
        if not self.wants(clip.split):
            return
        first = self._found.setdefault((clip.split, clip.clip_id), clip)
        if first is not clip:
            raise SourceError(
                "{where}two clips have the id {clip_id!r} in split {split!r}: {path!r} and "
                "{other_path!r}; each needs its own",
                where=where,
                clip_id=clip.clip_id,
                split=clip.split,
                path=readable(first.path),
                other_path=readable(clip.path),
            )

    def finish(self, looked_for: str) -> ClipList:
        """Return the list; `looked_for`, for the error of an empty one, is what would be a clip."""
        _, missing = match_splits(self.wanted_splits, self.seen_splits)
        if missing:
            raise SourceError(
                "{root!r} has no split {missing}; it has: {splits}{hint}",
                root=readable(self.root),
                missing=", ".join(map(repr, missing)),
                splits=", ".join(sort_splits(self.seen_splits)) or Message("none"),
                hint=hint(missing[0], self.seen_splits),
            )
        if not self._found:
            raise self.nothing(looked_for)
        splits = {name: index for index, name in enumerate(sort_splits(self.seen_splits))}
        clips = sorted(self._found.values(), key=lambda clip: natural_key(clip.clip_id))
        clips.sort(key=lambda clip: splits[clip.split])
        rows = "".join(json.dumps([clip.split, clip.clip_id, digest_of(clip)]) for clip in clips)
        fingerprint = hashlib.sha256(rows.encode()).hexdigest()
        found, problems = tuple(clips), tuple(self.problems)
        return ClipList(found, self.layout, self.root, fingerprint, self.num_ignored, problems)

    def nothing(self, looked_for: str) -> SourceError:
        """Return the error for a root without clips: what was looked for, and what is there."""
        root = Path(self.root)
        paths = sorted(root.iterdir())[:5] if root.is_dir() else []
        entries = Message(
            "{number} other files (first entries: {names})",
            number=self.num_ignored,
            names=", ".join(repr(readable(path.name)) for path in paths) or Message("nothing"),
        )
        return SourceError(
            "no clips in {root!r}: looked for {looked_for}; found {found}",
            root=readable(self.root),
            looked_for=looked_for,
            found=join("; ", [entries, *self.problems]),
        )


def digest_of(clip: Clip) -> str:
    """Return a short digest of all that decides what a clip gives, but not where it lies."""
    window = (clip.start_seconds, clip.end_seconds)
    row = [clip.kind, clip.version, window, clip.label, dict(clip.extra)]
    return hashlib.sha256(os.fsencode(json.dumps(row, sort_keys=True))).hexdigest()[:16]
