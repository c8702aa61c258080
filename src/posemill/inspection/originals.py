"""The pictures the keypoints were found on, where they still are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from posemill.decoders import open_video
from posemill.decoders.pictures import read_picture
from posemill.errors import DecodeError, PosemillError
from posemill.records import Clip, Frame, PoseClip
from posemill.sources import find_clips


class Originals:
    """Finds and reads the original frames of clips; what is gone is counted, not raised.

    Args:
        root: The dataset's folder or file; None where nothing is known about it.
        recorded_root: Where it was when the keypoints were found, if that was elsewhere.
        layout: How it was read then.
    """

    def __init__(
        self,
        root: Path | None = None,
        *,
        recorded_root: Path | None = None,
        layout: str = "auto",
    ) -> None:
        self.root, self.recorded_root, self.layout = root, recorded_root, layout
        self.on_frame: Callable[[], None] = lambda: None  # called before each frame is handed out
        self.num_read = 0
        self.num_gone = 0
        self.first_reason = ""

    @classmethod
    def of(cls, facts: dict[str, Any], *, root: Path | None = None) -> Originals:
        """Return the originals of a run by its manifest; `root` where the dataset was moved."""
        source = facts.get("source") or {}
        recorded = Path(str(source["path"])) if source.get("path") else None
        layout = str(source.get("layout") or "auto")
        return cls(root or recorded, recorded_root=recorded, layout=layout)

    def frames(self, clip: PoseClip, indices: Sequence[int]) -> Iterator[tuple[int, Frame | None]]:
        """Yield each of the rows (in ascending order) with its frame, None where it is gone."""
        ordered = sorted(set(indices))
        source = self._pictures(clip, ordered) if clip.image_paths else self._video(clip, ordered)
        for index, frame in source:
            self.num_read += frame is not None
            self.num_gone += frame is None
            self.on_frame()
            yield index, frame

    def _pictures(self, clip: PoseClip, rows: list[int]) -> Iterator[tuple[int, Frame | None]]:
        for row in rows:
            yield row, self._read(clip, clip.image_paths[row])

    def _read(self, clip: PoseClip, name: str) -> Frame | None:
        candidates = list(self._candidates(clip, Path(name)))
        found = next((path for path in candidates if path.exists()), candidates[0])
        try:
            return read_picture(found)
        except DecodeError as error:
            self._note(error)
            return None

    def _candidates(self, clip: PoseClip, path: Path) -> Iterator[Path]:
        """Yield where a picture may be: where it was, and at the same place below the root."""
        if self.root is not None and self.recorded_root not in (None, self.root):
            # The user says that the dataset was moved: look there first.
            if path.is_relative_to(self.recorded_root):
                yield self.root / path.relative_to(self.recorded_root)
            yield self.root / clip.clip_id / path.name
        yield path
        if self.root is not None and not path.is_absolute():
            yield self.root / path
            yield self.root / clip.clip_id / path
        elif self.root is not None:
            yield self.root / clip.split / clip.clip_id / path.name
            yield self.root / clip.clip_id / path.name
            yield self.root / path.name

    def _video(self, clip: PoseClip, rows: list[int]) -> Iterator[tuple[int, Frame | None]]:
        done = 0
        try:
            for row, frame in self._video_frames(clip, rows):
                done += 1
                yield row, frame
        except PosemillError as error:
            self._note(error)
        for row in rows[done:]:
            yield row, None

    def _video_frames(self, clip: PoseClip, rows: list[int]) -> Iterator[tuple[int, Frame]]:
        source = self._sources.get((clip.split, clip.clip_id))
        if source is None:
            where = self.root or "the source, which is not recorded"
            raise PosemillError(f"no clip {clip.clip_id!r} in {where}")
        start_seconds, end_seconds = source.start_seconds, source.end_seconds
        with open_video(source.path, start_seconds=start_seconds, end_seconds=end_seconds) as video:
            wanted = iter(rows)
            row = next(wanted, None)
            if row is None:
                return
            start = int(clip.frame_indices[row])
            for number, frame in enumerate(video.read_frames(start), start=start):
                while row is not None and int(clip.frame_indices[row]) == number:
                    yield row, frame
                    row = next(wanted, None)
                if row is None:
                    return

    @cached_property
    def _sources(self) -> dict[tuple[str, str], Clip]:
        if self.root is None:
            return {}
        return {
            (clip.split, clip.clip_id): clip for clip in find_clips(self.root, layout=self.layout)
        }

    def _note(self, error: PosemillError) -> None:
        self.first_reason = self.first_reason or str(error)
