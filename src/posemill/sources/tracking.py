"""Which folders of pictures are video, and which hold pictures that stand alone: by evidence.

Frames of a video have one size, numbers that go up in even steps, and neighbours that are alike.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from posemill.decoders.pictures import read_thumbnail
from posemill.errors import DecodeError
from posemill.messages import Message, join
from posemill.records import Clip
from posemill.sources.scan import list_pictures

IS_VIDEO = ""
SIZES_DIFFER = "their sizes differ"
NOT_NUMBERED = "their names are not numbered one after the other"
NOT_ALIKE = "neighbours are not alike"
ONE_PICTURE = "one picture"

_PAIRS = 5  # of neighbours, in each folder that is looked at
_FOLDERS = 48  # looked at, of each pattern of names; if they do not agree, all are
# Mean difference of two thumbnails, of 255 grey levels. Of every fifth frame of 79 real videos the
# median pair had 15 or less, every frame 6 or less; of photographs of COCO 39 or more.
_ALIKE = 16.0
_DIGITS = re.compile(r"([0-9]+)")


@dataclass(frozen=True)
class Tracking:
    """What was decided about the clips of a source; a run's manifest has its `to_record`."""

    num_tracked: int  # clips, videos among them
    alone: frozenset[tuple[str, str]] = frozenset()  # split and id of those that stand alone
    num_alone: int = 0  # their pictures
    reasons: Mapping[str, int] = field(default_factory=dict)  # and how many folders have each
    num_looked_at: int = 0  # folders whose pixels were looked at
    num_folders: int = 0  # there was a choice for

    def describe(self) -> Message:
        """Return one line: how many clips are tracked, how many pictures stand alone, and why."""
        counts = {
            "tracked as video: {number:clip|clips}": self.num_tracked,
            "{number:picture stands|pictures stand} alone": self.num_alone,
        }
        parts = [Message(text, number=number) for text, number in counts.items() if number]
        parts += [
            Message("{number:folder|folders}: {reason}", number=number, reason=Message(reason))
            for reason, number in self.reasons.items()
        ]
        template = "{clips} ({--mode:video} or {--mode:image} overrules it)"
        if self.num_folders:
            template = (
                "{clips} (by a look at {num_looked_at} of {num_folders} folders; {--mode:video} or "
                "{--mode:image} overrules it)"
            )
        return Message(template, clips=join("; ", parts), **vars(self))

    def to_record(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {**vars(self), "alone": sorted(map(list, self.alone)), "reasons": dict(self.reasons)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Tracking:
        """Return what `to_record` gave."""
        alone = frozenset((str(split), str(clip_id)) for split, clip_id in record["alone"])
        return cls(**{**record, "alone": alone})


@dataclass
class _Folder:
    clip: Clip
    names: Sequence[str]
    verdict: str | None = None  # `IS_VIDEO` or why not; None: nothing speaks for either


def decide_tracking(clips: Collection[Clip]) -> Tracking:
    """Return which clips are tracked: videos, and folders whose pictures look like one."""
    folders: list[_Folder] = []
    groups: dict[str | None, list[_Folder]] = {}
    alone: dict[tuple[str, str], tuple[int, str]] = {}  # pictures of each, and why
    for clip in clips:
        names: list[str] = []
        if clip.kind != "video":
            with suppress(OSError):  # it fails when it is read, with its reason
                names = list_pictures(clip.path)
        if names:
            folders.append(_Folder(clip, names))
            groups.setdefault(numbering_of(names), []).append(folders[-1])
        elif clip.kind == "pictures":
            alone[clip.split, clip.clip_id] = (clip.num_frames or 1, "")
    for folder in groups.pop(None, ()):
        folder.verdict = NOT_NUMBERED
    num_looked_at = sum(map(_judge_group, groups.values()))
    for folder in folders:
        verdict, clip = folder.verdict, folder.clip
        if verdict is None and len(folder.names) == 1:
            verdict = ONE_PICTURE
        if verdict or (verdict is None and clip.kind == "pictures"):
            alone[clip.split, clip.clip_id] = (len(folder.names), verdict or "")
    reasons = Counter(sorted(reason for _, reason in alone.values() if reason))
    num_tracked = len(clips) - len(alone)
    num_alone = sum(number for number, _ in alone.values())
    ids = frozenset(alone)
    return Tracking(num_tracked, ids, num_alone, reasons, num_looked_at, len(folders))


def numbering_of(names: Sequence[str]) -> str | None:
    """Return the pattern (`a#.png`) of names that differ in one number, going up in even steps.

    Half of the steps have to be the same: some frames may be missing. None where there is no such
    number. The names are in natural order.
    """
    split = [_DIGITS.split(name) for name in names]
    pattern = "#".join(split[0][0::2])
    if len(names) == 1:
        return pattern
    if len({tuple(parts[0::2]) for parts in split}) > 1:
        return None
    columns = [column for column in zip(*split, strict=True) if len(set(column)) > 1]
    if len(columns) != 1:
        return None
    numbers = [int(digits) for digits in columns[0]]
    steps = Counter(after - before for before, after in pairwise(numbers))
    return pattern if 2 * max(steps.values()) >= len(names) - 1 else None


def _judge_group(folders: Sequence[_Folder]) -> int:
    """Give the folders of one pattern their verdicts; return how many were looked at."""
    choices = [folder for folder in folders if len(folder.names) > 1]
    step = max(1, -(-len(choices) // _FOLDERS))
    few, others = choices[::step], [folder for index, folder in enumerate(choices) if index % step]
    for folder in few:
        folder.verdict = _judge_pixels(folder.clip.path, folder.names)
    decided = {folder.verdict for folder in few if folder.verdict is not None}
    if len({verdict == IS_VIDEO for verdict in decided}) > 1:
        for folder in others:
            folder.verdict = _judge_pixels(folder.clip.path, folder.names)
        return len(choices)
    usual = min(decided, default=None)
    for folder in folders:
        folder.verdict = usual if folder.verdict is None else folder.verdict
    return len(few)


def _judge_pixels(path: str, names: Sequence[str]) -> str | None:
    """Return `IS_VIDEO` or why not, by some pairs of neighbours; None if none can be read."""
    last = len(names) - 2
    num_pairs = min(_PAIRS, last + 1)
    starts = [round(index * last / max(1, num_pairs - 1)) for index in range(num_pairs)]
    seen: dict[int, np.ndarray[Any, np.dtype[np.float32]]] = {}
    sizes = set()
    for index in sorted({*starts, *(start + 1 for start in starts)}):
        with suppress(DecodeError):
            size_wh, grey = read_thumbnail(os.path.join(path, names[index]))  # noqa: PTH118
            seen[index] = grey.astype(np.float32)
            sizes.add(size_wh)
    if len(sizes) > 1:
        return SIZES_DIFFER
    pairs = [start for start in starts if start in seen and start + 1 in seen]
    if not pairs:
        return None
    near = np.median([np.abs(seen[start] - seen[start + 1]).mean() for start in pairs])
    # A camera that moves fast: neighbours differ, but far less than frames that are far apart.
    half = len(pairs) // 2
    far = [np.abs(seen[a] - seen[b]).mean() for a, b in zip(pairs, pairs[half:], strict=False)]
    is_nearer = len(pairs) == _PAIRS and near <= np.median(far) / 2
    return IS_VIDEO if near <= _ALIKE or is_nearer else NOT_ALIKE
