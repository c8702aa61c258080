"""Frames to keypoints: what the workers of `extract` do with what they read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from posemill.config import ExtractConfig, parse_size
from posemill.decoders.pictures import resize_frame
from posemill.errors import DecodeError
from posemill.estimators import ClipState, open_estimator
from posemill.estimators.people import TrackedState, with_ids
from posemill.executors import is_worker_process
from posemill.jobs.extract.job import Lane, Sink
from posemill.records import Frame, Keypoints, PoseClip, join_people, nothing_in_metres
from posemill.runs.events import Shard
from posemill.runs.manifest import SHARDS_NAME
from posemill.runs.queries import Unit
from posemill.runs.schema import leave_pandas_unloaded
from posemill.runs.writer import ShardWriter
from posemill.sources.reading import attempt

Result = tuple[Keypoints, int]  # of a batch of frames, and which of them


class KeypointSink(Sink):
    """An engine, and the shard that its results are collected for, of the run at an address."""

    has_worked = False

    def __init__(self, config: ExtractConfig, address: str, *, device: str, run_id: str) -> None:
        self.writes_to = os.path.join(address, SHARDS_NAME)  # noqa: PTH118
        self._estimator = open_estimator(
            config.engine, device=device, threads=1, **config.all_engine_options()
        )
        self.saves_states = self._estimator.info.saves_states
        self._finds_several = self._estimator.info.people == "several"
        self._skeleton_name, self._resize_wh = config.skeleton, parse_size(config.resize)
        if is_worker_process():
            leave_pandas_unloaded()
        self._writer = ShardWriter(address, run_id)
        self._good_frame: Frame | None = None  # the last one that gave keypoints
        self._is_tracking = False

    def begin(self, unit: Unit) -> ClipState | None:
        """Return the state of the tracker where a unit goes on; None if its frames stand alone."""
        if not unit.is_chain:
            return None
        engine = self._estimator
        if unit.state is None or not self.saves_states:
            return TrackedState(engine.new_state()) if self._finds_several else engine.new_state()
        if not self._finds_several:
            return engine.load_state(unit.state)
        data, tracker = TrackedState.split_bytes(unit.state)
        return TrackedState(engine.load_state(data), tracker)

    def state_after_failure(self, state: ClipState) -> ClipState:
        """Return a fresh state: an engine that threw leaves nobody's to be trusted."""
        fresh = self._estimator.new_state()
        return TrackedState(fresh, state.tracker) if isinstance(state, TrackedState) else fresh

    def is_broken(self) -> bool:
        """Return whether the engine fails at the last frame that it was well with, or at grey."""
        frame = self._good_frame
        if frame is None:
            frame = np.full((256, 256, 3), 128, np.uint8)
        states = [self._estimator.new_state()] if self._is_tracking else None
        if isinstance(attempt(lambda: self._estimator.estimate([frame], states)), DecodeError):
            return True
        self._good_frame, self.has_worked = frame, True
        return False

    def compute(self, frames: list[Frame], states: list[Any] | None) -> Sequence[Result]:
        """Return the keypoints of each frame; states move on."""
        if self._resize_wh is not None:
            frames = [resize_frame(frame, self._resize_wh) for frame in frames]
        self._is_tracking = states is not None
        if states is None or not self._finds_several:
            found = self._estimator.estimate(frames, states)
        else:
            found = self._estimator.estimate(frames, [state.engine for state in states])
            trackers = [state.tracker for state in states]
            found = with_ids(found, trackers, self._estimator.info.skeleton_names[0])
        self._good_frame, self.has_worked = frames[-1], True
        return [(found, row) for row in range(len(found))]

    def commit(self, name: str, lanes: Sequence[Lane]) -> Shard:
        """Write the rows as a shard of that name."""
        for lane in lanes:
            indices, paths, results = zip(*lane.rows, strict=True)
            unit, clip = lane.unit, lane.unit.clip
            piece = join_frames(
                results,
                self._estimator.info.skeleton_names[0],
                clip_id=clip.clip_id,
                split=clip.split,
                frame_indices=np.array([*map(lane.reader.source_number, indices)], np.int64),
                image_paths=tuple(path for path in paths if path is not None),
                label=clip.label,
                fps=lane.reader.fps,
                extra=dict(clip.extra),
            ).as_skeleton(self._skeleton_name)
            self._writer.add(unit.clip_no, piece, unit_no=unit.unit_no)
        return self._writer.write(f"{name}.parquet")


def join_frames(results: Sequence[Result], skeleton_name: str, **fields: Any) -> PoseClip:
    """Return what an engine gave for the frames of a clip, one after the other, as a clip."""
    others = [batch.others and batch.others.of_frames(row, row + 1) for batch, row in results]
    world = None
    if any(batch.world is not None for batch, _ in results):
        world = np.stack(
            [
                nothing_in_metres(1)[0] if batch.world is None else batch.world[row]
                for batch, row in results
            ]
        )
    return PoseClip(
        np.stack([batch.points[row] for batch, row in results]),
        np.stack([batch.scores[row] for batch, row in results]),
        np.stack([batch.sizes_wh[row] for batch, row in results]),
        skeleton_name,
        others=join_people(others),
        world=world,
        **fields,
    )
