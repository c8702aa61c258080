"""Clips to convert: a run folder or a file of any format, behind one face."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from posemill.blocks import ClipBlock, join_clips, join_stream
from posemill.errors import FormatError, RunError
from posemill.formats import detect_format, get_format
from posemill.formats.shared.contract import Format, Size
from posemill.machine.read_ahead import map_ahead, read_ahead
from posemill.records import PoseClip
from posemill.stores.columns import part_for
from posemill.stores.commits import Failure
from posemill.stores.manifest import MANIFEST_NAME
from posemill.stores.reader import Run, open_run
from posemill.stores.shards import BlockPlan

Item = TypeVar("Item", PoseClip, ClipBlock)


class ClipInput:
    """A run or a file. `clips` reads it anew each time; nothing is kept in memory.

    Args:
        path: A run folder, or a file or folder in one of the formats.
        format_name: Taken as this format; by default it is found out.
        size_wh: The pictures' size, for clips that do not say it.
        splits: Only these; all by default.
    """

    def __init__(
        self,
        path: Path,
        *,
        format_name: str | None = None,
        size_wh: Size | None = None,
        splits: Sequence[str] | None = None,
    ) -> None:
        self.path = path
        self._size_wh = size_wh
        self._splits = None if splits is None else tuple(splits)
        self.run: Run | None = None
        self._format: Format | None = None
        if format_name is None and (path / MANIFEST_NAME).is_file():
            self.run = open_run(path)
        else:
            self._format = get_format(format_name) if format_name else detect_format(path)
        if self.run is not None and self._splits is not None:
            unknown = [split for split in self._splits if split not in self.run.splits]
            if unknown:
                raise RunError(
                    f"{path} has no split {', '.join(map(repr, unknown))}; it has "
                    f"{', '.join(self.run.splits) or 'none'}"
                )

    @property
    def kind(self) -> str:
        """`run`, or the name of the format."""
        return "run" if self._format is None else self._format.name

    @property
    def num_frames(self) -> int | None:
        """How many frames there are, None where only reading would tell."""
        if self.run is None:
            return None
        chosen = self._splits or self.run.splits
        return sum(each.frames_out for each in self.run.counts if each.split in chosen)

    @property
    def splits(self) -> tuple[str, ...] | None:
        """The splits that will be read, None where only reading would tell."""
        return self._splits or (self.run.splits if self.run is not None else None)

    def clips(
        self, *, layout: str | None = None, has_room_for_failures: bool = False
    ) -> Iterator[PoseClip]:
        """Yield the clips, those of a run split by split.

        Args:
            layout: The skeleton the clips will be turned into. What it does not need may be left
                out of those of a run: they then have a smaller skeleton than `skeleton_of` says.
            has_room_for_failures: A split of which everything failed is no error, as `failures`
                are taken too.

        Raises:
            FormatError, RunError: Nothing is there, or a chosen split is not.
        """
        failed = {each.split for each in self.failures()} if has_room_for_failures else set()
        return self._chosen(self._all_clips(layout), failed)

    def plan_splits(self) -> dict[str, list[BlockPlan]]:
        """Return the blocks of each split of a run as it is now; nothing for a file."""
        if self.run is None:
            return {}
        return {
            split: list(self.run.plan_blocks(split)) for split in self._splits or self.run.splits
        }

    def blocks(
        self, plans: Mapping[str, list[BlockPlan]], *, layout: str | None = None
    ) -> Iterator[ClipBlock]:
        """Yield what `clips` does, many clips at a time, read ahead by other threads.

        Args:
            plans: What `plan_splits` said.
            layout: As in `clips`.
        """
        if self.run is None:
            return join_stream(read_ahead(self.clips()))
        planned = (plan for each in plans.values() for plan in each)
        read = partial(self.run.read_block, skeleton_name=_part_of(self.run, layout))
        return self._chosen(map(self._sized, map_ahead(read, planned)))

    def skeleton_of(self, clip: PoseClip) -> str:
        """Return the skeleton a clip has in the input, as whichever `layout` it was read."""
        return clip.skeleton_name if self.run is None else self.run.skeleton_name

    def _sized(self, block: ClipBlock) -> ClipBlock:
        """Return the block with the size of the pictures, where it is not known."""
        if self._size_wh is None or (block.frames.sizes_wh > 0).all():
            return block
        return join_clips([clip.with_size(self._size_wh) for clip in block.clips])

    def _chosen(self, items: Iterator[Item], failed: Collection[str] = ()) -> Iterator[Item]:
        """Yield the items of the chosen splits; raise if one of these has none and not `failed`."""
        seen, there = set(failed), set[str]()
        for item in items:
            there.add(item.split)
            if self._splits is None or item.split in self._splits:
                seen.add(item.split)
                yield item
        if not seen:
            kind = RunError if self.run is not None else FormatError
            advice = f"; it has {', '.join(sorted(there))}" if there else ""
            if self.failures():
                advice = f"; what failed, and why: posemill view {self.path}"
            what = f"holds no clips{_of_splits(self._splits)}; expected some"
            raise kind(f"{self.path}: {what}{advice}")
        missing = [split for split in self.splits or () if split not in seen]
        if missing:
            raise (RunError if self.run is not None else FormatError)(
                f"{self.path}: split {', '.join(map(repr, missing))} holds no clips; expected "
                f"some: leave it out (--splits {' '.join(sorted(seen))})"
            )

    def _all_clips(self, layout: str | None) -> Iterator[PoseClip]:
        if self.run is not None:
            part = _part_of(self.run, layout)
            for split in self._splits or self.run.splits:
                for clip in self.run.clips(split, skeleton_name=part):
                    yield clip.with_size(self._size_wh)
        elif self._format is not None:
            for clip in self._format.read(self.path, size_wh=self._size_wh):
                yield clip.with_size(self._size_wh)

    @property
    def has_loose_pictures(self) -> bool:
        """Whether a run says that pictures it was made of do not follow each other in time."""
        return self.run is not None and _has_layout(self.run.manifest.source, "pictures")

    def failures(self) -> list[Failure]:
        """Return what gave no keypoints in the chosen splits of a run; a file does not say."""
        found = [] if self.run is None else self.run.failures()
        return [each for each in found if self._splits is None or each.split in self._splits]

    def facts(self) -> dict[str, Any]:
        """Return what is known of the origin, for the manifest of what is made of it."""
        facts: dict[str, Any] = {"path": str(self.path), "kind": self.kind}
        if self.run is not None:
            facts["manifest"] = dataclasses.asdict(self.run.manifest)
            facts["num_failures"] = len(self.failures())
        return facts


def open_inputs(
    paths: Sequence[Path], *, format_name: str | None = None, size_wh: Size | None = None
) -> list[ClipInput]:
    """Return several inputs; `format_name` is that of the files among them, a run is a run."""
    return [
        ClipInput(
            path,
            format_name=None if (path / MANIFEST_NAME).is_file() else format_name,
            size_wh=size_wh,
        )
        for path in paths
    ]


def _part_of(run: Run, layout: str | None) -> str:
    return run.skeleton_name if layout is None else part_for(run.skeleton_name, layout)


def _has_layout(source: Mapping[str, Any], layout: str) -> bool:
    """Return whether a manifest's source, or one of a run that was merged into it, had a layout."""
    inputs = [each for each in source.get("inputs") or () if isinstance(each, Mapping)]
    return source.get("layout") == layout or any(
        _has_layout((each.get("manifest") or {}).get("source") or {}, layout) for each in inputs
    )


def _of_splits(splits: tuple[str, ...] | None) -> str:
    return f" of split {', '.join(map(repr, splits))}" if splits else ""
