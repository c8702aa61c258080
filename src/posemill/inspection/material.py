"""What is looked at: a run folder or an exported file, behind one face."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from posemill.errors import FormatError, PosemillError, RunError
from posemill.formats import Format, detect_format, get_format
from posemill.formats.shared.contract import Size
from posemill.records import BoolArray, PoseClip, fields_of_recipe
from posemill.skeletons import get_skeleton
from posemill.stores.manifest import MANIFEST_NAME
from posemill.stores.reader import Run

ClipName = tuple[str, str]  # split, clip_id


@dataclass(frozen=True)
class Outline:
    """A clip without its keypoints.

    Args:
        present: `(frames, parts)`: which parts were found.
        sizes_wh: `(frames, 2)` in pixels.
        normalized: As in `PoseClip`, as is `interpolated`.
    """

    split: str
    clip_id: str
    skeleton_name: str
    present: BoolArray
    sizes_wh: npt.NDArray[np.int32]
    normalized: str = "none"
    interpolated: int = 0


class Material(Protocol):
    """Clips to look at. Everything is read anew at each call, nothing is kept in memory."""

    path: Path
    kind: str  # `run`, or the name of a format

    def clips(self, splits: Iterable[str] | None = None) -> Iterator[PoseClip]:
        """Yield the clips of these splits, or of all."""

    def outlines(self, splits: Iterable[str] | None = None) -> Iterator[Outline]:
        """Yield the clips without their keypoints: fast for a run."""

    def pick(self, names: Iterable[ClipName]) -> Iterator[PoseClip]:
        """Yield the clips of these names, in any order."""

    def num_frames(self, splits: Iterable[str] | None = None) -> int | None:
        """Return how many frames `clips` will yield; None where that takes reading them."""

    def num_failed(self) -> dict[str, int]:
        """Return how many frames gave no keypoints, by split; empty where that is not recorded."""

    def num_clips_failed(self) -> dict[str, int]:
        """Return how many clips gave none at all, by split; empty where that is not recorded."""

    def facts(self) -> dict[str, Any]:
        """Return what the material says about its making."""

    def failures(self) -> list[dict[str, Any]]:
        """Return what gave no keypoints, each with the fields of `posemill.stores` failures."""


def open_material(
    path: Path, *, format_name: str | None = None, size_wh: Size | None = None
) -> Material:
    """Return the run or the file at a path.

    Args:
        path: A run folder, or a file or folder in one of the formats.
        format_name: Taken as this format; by default it is found out.
        size_wh: The pictures' size, for clips that do not say it.

    Raises:
        PosemillError: There is nothing, or nothing that can be read.
    """
    if not path.exists():
        raise PosemillError(f"{path}: no such file or folder; expected a run or an exported file")
    if format_name is None and path.is_dir() and (path / MANIFEST_NAME).exists():
        return _RunMaterial(path, size_wh)
    form = detect_format(path) if format_name is None else get_format(format_name)
    return _FileMaterial(path, form, size_wh)


class _RunMaterial:
    """A run folder, finished or not."""

    kind = "run"

    def __init__(self, path: Path, size_wh: Size | None = None) -> None:
        self.path, self.size_wh = path, size_wh
        self.run = Run(path)
        # One in which everything failed has reasons to show.
        if not self.run.num_frames and not self.run.failures():
            yet = " yet" * (not self.run.is_finished)
            raise RunError(
                f"{path}: the run holds no keypoints{yet}; see how far it is with: "
                f"posemill status {path}"
            )

    def _chosen(self, splits: Iterable[str] | None) -> list[str]:
        chosen = list(self.run.splits) if splits is None else list(dict.fromkeys(splits))
        for split in chosen:
            if split not in self.run.splits:
                raise RunError(_no_split(self.path, split, self.run.splits))
        return chosen

    def clips(self, splits: Iterable[str] | None = None) -> Iterator[PoseClip]:
        """Yield clips, one in memory at a time."""
        for split in self._chosen(splits):
            yield from (clip.with_size(self.size_wh) for clip in self.run.clips(split))

    def outlines(self, splits: Iterable[str] | None = None) -> Iterator[Outline]:
        """Yield outlines out of the small columns."""
        names = get_skeleton(self.run.skeleton_name).part_names
        flags = [f"has_{name}" for name in names]
        made = fields_of_recipe(self.run.manifest.options.get("recipe"))
        for split in self._chosen(splits):
            table = self.run.table(split, ["clip_id", "width", "height", *flags])
            present = np.stack([table.column(flag).to_numpy() for flag in flags], 1)
            sizes = np.stack([table.column(side).to_numpy() for side in ("width", "height")], 1)
            if self.size_wh is not None:
                sizes = np.where((sizes <= 0).any(1, keepdims=True), self.size_wh, sizes)
            ids = table.column("clip_id").to_pylist()
            # Rows come by clip: a new id starts a new clip.
            starts = [row for row in range(len(ids)) if not row or ids[row] != ids[row - 1]]
            for start, stop in pairwise([*starts, len(ids)]):
                yield Outline(
                    split,
                    ids[start],
                    self.run.skeleton_name,
                    present[start:stop].astype(bool),
                    sizes[start:stop].astype(np.int32),
                    **made,
                )

    def pick(self, names: Iterable[ClipName]) -> Iterator[PoseClip]:
        """Yield clips by name."""
        for split, clip_id in names:
            yield self.run.clip(clip_id, split).with_size(self.size_wh)

    def num_frames(self, splits: Iterable[str] | None = None) -> int | None:
        """Return the sum of the ledger's counts."""
        chosen = self._chosen(splits)
        return sum(each.frames_out for each in self.run.counts if each.split in chosen)

    def num_failed(self) -> dict[str, int]:
        """Return the ledger's counts."""
        return {each.split: each.frames_failed for each in self.run.counts}

    def num_clips_failed(self) -> dict[str, int]:
        """Return the ledger's counts."""
        return {each.split: each.clips_failed for each in self.run.counts}

    def facts(self) -> dict[str, Any]:
        """Return the manifest, and whether the run is finished."""
        return {"is_finished": self.run.is_finished, **asdict(self.run.manifest)}

    def failures(self) -> list[dict[str, Any]]:
        """Return the ledger's failures."""
        return [asdict(failure) for failure in self.run.failures()]


class _FileMaterial:
    """An exported file, or a folder of files."""

    def __init__(self, path: Path, form: Format, size_wh: Size | None = None) -> None:
        self.path, self.form, self.size_wh = path, form, size_wh
        self.kind = form.name

    def clips(self, splits: Iterable[str] | None = None) -> Iterator[PoseClip]:
        """Yield clips as the format's reader gives them."""
        wanted = None if splits is None else set(splits)
        seen: dict[str, int] = {}
        for clip in self.form.read(self.path, size_wh=self.size_wh):
            seen[clip.split] = seen.get(clip.split, 0) + 1
            if wanted is None or clip.split in wanted:
                yield clip.with_size(self.size_wh)
        for split in sorted((wanted or set()) - set(seen)):
            raise FormatError(_no_split(self.path, split, seen))
        if not seen:
            raise FormatError(f"{self.path}: holds no clips; expected at least one")

    def outlines(self, splits: Iterable[str] | None = None) -> Iterator[Outline]:
        """Yield outlines; the keypoints are read for it."""
        for clip in self.clips(splits):
            yield Outline(
                clip.split,
                clip.clip_id,
                clip.skeleton_name,
                clip.present,
                clip.sizes_wh,
                clip.normalized,
                clip.interpolated,
            )

    def pick(self, names: Iterable[ClipName]) -> Iterator[PoseClip]:
        """Yield clips by name, in the order of the file."""
        wanted = set(names)
        return (clip for clip in self.clips() if (clip.split, clip.clip_id) in wanted)

    def num_frames(self, splits: Iterable[str] | None = None) -> int | None:
        """Not known before reading."""
        return None

    def num_failed(self) -> dict[str, int]:
        """A file does not know what is not in it."""
        return {}

    def num_clips_failed(self) -> dict[str, int]:
        """A file does not know what is not in it."""
        return {}

    def facts(self) -> dict[str, Any]:
        """Return the format and the size."""
        facts: Mapping[str, Any] = {"format": self.form.name, "losses": list(self.form.losses)}
        return {**facts, "bytes": self.path.stat().st_size} if self.path.is_file() else {**facts}

    def failures(self) -> list[dict[str, Any]]:
        """A file does not know what is not in it."""
        return []


def _no_split(path: Path, split: str, known: Iterable[str]) -> str:
    return f"{path} has no split {split!r}; it has {', '.join(known) or 'none'}"
