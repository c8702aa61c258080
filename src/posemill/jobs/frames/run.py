"""`frames`: every video of a source decoded once, kept as pictures or packed, with an index."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from posemill.config import FramesConfig
from posemill.decoders.choice import AUTO, USUAL, Choice, choose
from posemill.jobs.extract.job import FrameJob
from posemill.jobs.extract.opening import source_record
from posemill.jobs.extract.plan import UNKNOWN_COST
from posemill.jobs.extract.run import run_job
from posemill.jobs.extract.status import Progress
from posemill.jobs.frames.sinks import (
    FrameSink,
    PackSink,
    PictureSink,
    check_parts_differ,
    clip_parts,
    plan_packs,
    read_packs,
)
from posemill.messages import Message
from posemill.records import label_of_folder
from posemill.runs.events import PlannedUnit
from posemill.runs.frame_index import INDEX_NAME, IndexedClip, indices_of, ranges_of, write_index
from posemill.runs.ledger import Ledger
from posemill.runs.log import EventLog
from posemill.runs.manifest import Manifest, check_folder
from posemill.sources import ClipList


@dataclass(frozen=True, repr=False)
class FramesSummary(Progress):
    """What came of it."""

    @property
    def index(self) -> Path:
        """The table of all clips, for datasets."""
        return self.folder / INDEX_NAME

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {**super().to_json(), "index": str(self.index), "num_bytes": self.num_bytes}


class FramesJob(FrameJob):
    """All frames that are wanted of all clips, kept."""

    config: FramesConfig
    summary_type = FramesSummary

    def __init__(self, config: FramesConfig) -> None:
        super().__init__(config)
        self.target_size = config.target_size

    def find_clips(self, clips: ClipList | None = None) -> ClipList:
        """Return the clips, with a note of the decoder that is chosen where that is `auto`.

        A begun run goes on with the one it was begun with, whatever was measured since.
        """
        clips = super().find_clips(clips)
        check_parts_differ(clips)
        if self.config.decoder != AUTO:
            return clips
        if check_folder(self.home.work):
            name = str(Manifest.read(self.home.work).options.get("decoder") or USUAL)
            choice = Choice(name, Message("as the run was begun"))
        else:
            choice = choose([clip.path for clip in clips if clip.kind == "video"], "all")
        self.config = self.config.replace(decoder=choice.decoder)
        note = Message("decoder {decoder}: {reason}", decoder=choice.decoder, reason=choice.why)
        return dataclasses.replace(clips, problems=(*clips.problems, note))

    def manifest(self, clips: ClipList) -> Manifest:
        """Return what was asked for."""
        return Manifest(
            "",
            kind="frames",
            options=self.config.deciding_options(),
            source=source_record(self.config.source, clips),
        )

    def plan(self, clips: ClipList) -> Iterable[PlannedUnit]:
        """Return a unit for each clip: its pictures are numbered one after the other."""
        config = self.config
        if config.pack:
            plan_packs(config.out, clips, config.decoder, config.target_size)
        for clip_no, clip in enumerate(clips, start=1):
            cost = UNKNOWN_COST if clip.num_frames is None else clip.num_frames
            yield PlannedUnit(clip_no, 0, None, True, clip.kind == "video", cost)

    def open_sink(self, device: str, run_id: str) -> FrameSink:
        """Return what writes pictures, or packs."""
        return (PackSink if self.config.pack else PictureSink)(self.config)

    def prepare(self, events: EventLog) -> None:
        """Take back the index if it does not say all: it is what makes the frames whole."""
        if events.ledger.costs_to_do():
            (self.config.out / INDEX_NAME).unlink(missing_ok=True)

    def finish(self, events: EventLog, clips: ClipList) -> None:
        """Write the index."""
        write_index(self.config.out, self._index(events.ledger, clips))

    def _index(self, ledger: Ledger, clips: ClipList) -> Iterator[IndexedClip]:
        config = self.config
        places = read_packs(config.out) if config.pack else {}
        has_label_folders = clips.layout in ("videos", "frames")
        for clip_no, _, pieces in ledger.found():
            clip, found = clips[clip_no - 1], [json.loads(note) for _, note in pieces]
            path, offset = config.out.joinpath(*clip_parts(clip)), None
            if config.pack:
                path, offset = places[clip_no].path, places[clip_no].offset
            label = clip.label
            if label is None and has_label_folders:
                label = label_of_folder(clip.clip_id) or None
            numbers = indices_of(" ".join(note["frames"] for note in found))
            width, height = found[0]["size_wh"]
            yield IndexedClip(
                path,
                clip.clip_id,
                clip.split,
                label,
                "rgb" if config.pack else cast(Any, config.format),
                offset,
                sum(num_rows for num_rows, _ in pieces),
                width,
                height,
                found[0]["fps"],
                ranges_of(numbers.tolist()),
                clip.extra,
            )


def write_frames(config: FramesConfig, **hooks: Any) -> FramesSummary:
    """Keep the frames of all clips of a source; continue if it was begun. As `run_job`."""
    return cast(FramesSummary, run_job(FramesJob(config), **hooks))
