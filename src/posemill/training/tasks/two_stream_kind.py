"""Keypoints and video of the same clips as data of a training, joined by clip id."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from posemill.errors import ConfigError, TrainingError
from posemill.messages import Message
from posemill.records import FloatArray, IntArray
from posemill.training.config.kinds import paths_of_streams
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.batches import Batch, Draw
from posemill.training.data.clips import ClipKey, Clips, Picture
from posemill.training.data.keypoint_clips import KeypointClips, read_unlabelled
from posemill.training.data.labels import LabelledClip
from posemill.training.tasks.keypoint_kind import KeypointKind
from posemill.training.tasks.kinds import Kind
from posemill.training.tasks.video_kind import VideoKind
from posemill.training.video.index import key_of
from posemill.training.video.pixel_clips import PixelClips


class TwoStreamClips(Clips):
    """The clips of one split that are in both streams, in the same order; see `Clips`.

    Video gives labels and splits; what cannot be read of it is left out.
    """

    def __init__(self, keypoints: KeypointClips, pixels: PixelClips) -> None:
        self.keypoints, self.pixels = keypoints, pixels
        # Of video; of keypoints where all videos have as many.
        self.lengths = pixels.lengths if np.ptp(pixels.lengths) else keypoints.lengths
        self.targets, self.class_names, self.keys = pixels.targets, pixels.class_names, pixels.keys
        self.groups, self.group_column = pixels.groups, pixels.group_column
        self.is_share = pixels.is_share

    @property
    def shape(self) -> Mapping[str, Any]:
        """The sizes of both."""
        return {**self.keypoints.shape, **self.pixels.shape}

    def select(self, indices: Sequence[int] | IntArray) -> TwoStreamClips:
        """Return these clips only."""
        return TwoStreamClips(self.keypoints.select(indices), self.pixels.select(indices))

    def __getitems__(self, draws: Sequence[Draw]) -> Batch:
        """Return the batch of these draws; what video leaves out is left out."""
        video = self.pixels.__getitems__(draws)
        there = set(video.indices.tolist())
        keypoints = self.keypoints.__getitems__([draw for draw in draws if draw.clip in there])
        return dataclasses.replace(video, inputs=(keypoints.inputs, video.inputs))

    def picture(self, index: int) -> Picture | None:
        """Return the frames of a clip."""
        return self.pixels.picture(index)

    def features(self, indices: IntArray) -> FloatArray:
        """Return what the keypoints of some clips are like; nothing is decoded for it."""
        return self.keypoints.features(indices)


def match_clips(videos: Sequence[ClipKey], keypoints: Sequence[ClipKey]) -> dict[ClipKey, int]:
    """Return which clip of the keypoints is that of each video, for those that have one.

    Split and id are the same; or the id alone, where only one video and one clip have it: lists
    may be divided anew, or name no splits.
    """
    exact = {key: row for row, key in enumerate(keypoints)}
    by_id: dict[str, list[int]] = {}
    for row, (_, clip_id) in enumerate(keypoints):
        by_id.setdefault(clip_id, []).append(row)
    num_videos = Counter(clip_id for _, clip_id in videos)
    matches = {}
    for key in videos:
        rows = [exact[key]] if key in exact else by_id.get(key[1], [])
        if key in exact or (len(rows) == 1 and num_videos[key[1]] == 1):
            matches[key] = rows[0]
    return matches


class TwoStreamKind(Kind):
    """A prepared run and videos."""

    name = "two_streams"

    def __init__(self) -> None:
        self._video, self._keypoints = VideoKind(), KeypointKind()
        self._alone: dict[str, list[str]] = {}

    def read_rows(self, config: TrainConfig) -> list[LabelledClip]:
        """Return every clip of the videos with its label, split and group."""
        return self._video.read_rows(self._of_video(config))

    def load(
        self,
        config: TrainConfig,
        *,
        class_names: Sequence[str] | None = None,
        splits: Sequence[str] | None = None,
    ) -> Mapping[str, TwoStreamClips]:
        """Return the clips by split, as the list of videos divides them."""
        if config.task != "classify":
            raise ConfigError(
                "two streams give one answer a clip: task {task} needs one for every frame; "
                "train on one of them",
                task=config.task,
            )
        points_path, videos_path = paths_of_streams(config.data.path)
        store, keys, skeleton = read_unlabelled(self._of_keypoints(config).data)
        sets = self._video.load(self._of_video(config), class_names=class_names, splits=splits)
        rows = match_clips([key_of(place) for place in self._video.index.clips], keys)
        seen = [place for clips in sets.values() for place in clips.places]
        joint = {rows[key_of(place)] for place in seen if key_of(place) in rows}
        self._alone = {points_path: [each.clip_id for each in seen if key_of(each) not in rows]}
        if not splits:
            others = [clip_id for row, (_, clip_id) in enumerate(keys) if row not in joint]
            self._alone[videos_path] = others
        if not joint:
            first = min(place.clip_id for place in seen)
            raise TrainingError(
                "no clip is in both {points_path} and {videos_path}: the first ids are "
                "{clip_id!r} and {first!r}; extract the keypoints from the same list",
                points_path=points_path,
                videos_path=videos_path,
                clip_id=keys[0][1],
                first=first,
            )
        joined = {}
        for split, clips in sets.items():
            kept = [index for index, place in enumerate(clips.places) if key_of(place) in rows]
            if not kept:
                continue
            video = clips.select(kept)
            chosen = np.asarray([rows[key_of(place)] for place in video.places], np.int64)
            keypoints = KeypointClips(
                store=store,
                rows=chosen,
                skeleton_name=skeleton,
                targets=video.targets,
                keys=video.keys,
                class_names=video.class_names,
            )
            joined[split] = TwoStreamClips(keypoints, video)
        return joined

    def open(self, config: TrainConfig, clips: TwoStreamClips, *, is_training: bool) -> Clips:
        """Return clips that give batches; one whose video cannot be read is left out."""
        of_points, of_video = self._of_keypoints(config), self._of_video(config)
        return TwoStreamClips(
            self._keypoints.open(of_points, clips.keypoints, is_training=is_training),
            self._video.open(of_video, clips.pixels, is_training=is_training),
        )

    def _of_keypoints(self, config: TrainConfig) -> TrainConfig:
        return config.replace(data=paths_of_streams(config.data.path)[0])

    def _of_video(self, config: TrainConfig, path: str | None = None) -> TrainConfig:
        """Return the settings as those of a training on the videos alone, or at another path."""
        options = config.model.options
        rule = "drop" if config.video.on_error == "replace" else config.video.on_error
        return config.replace(
            data=paths_of_streams(config.data.path)[1] if path is None else path,
            model=options.get("video_model", "tsm"),
            model_options=dict(options.get("video_options") or {}),
            video_on_error=rule,  # another clip's video would stand beside the keypoints of this
        )

    def recipe(self, config: TrainConfig) -> Mapping[str, Any]:
        """Return how `posemill prepare` made the keypoints."""
        return self._keypoints.recipe(self._of_keypoints(config))

    def decided(self, config: TrainConfig, train: TwoStreamClips) -> Mapping[str, tuple[Any, str]]:
        """Return what was left open of the keypoints."""
        return self._keypoints.decided(self._of_keypoints(config), train.keypoints)

    def notes(self, config: TrainConfig, sets: Mapping[str, TwoStreamClips]) -> Iterator[str]:
        """Yield the clips that one of the streams does not have, and what there is of video."""
        for path, alone in self._alone.items():
            if alone:
                yield Message(
                    "{num_clips:clip is|clips are} not in {path} and left out, the first is "
                    "{first!r}",
                    num_clips=len(alone),
                    path=path,
                    first=min(alone),
                )
        videos = {split: clips.pixels for split, clips in sets.items()}
        yield from self._video.notes(self._of_video(config), videos)

    def new_clips(
        self, config: TrainConfig, identity: Mapping[str, Any], clips: Any
    ) -> Iterator[tuple[Picture, Batch]]:
        """Yield each of some pairs: the keypoints of a clip (`PoseClip`) and its video's path."""
        of_points, of_video = config.replace(data=""), self._of_video(config, "")
        for pose, path in clips:
            ((_, points),) = self._keypoints.new_clips(of_points, identity, [pose])
            for picture, video in self._video.new_clips(of_video, identity, [path]):
                batch = dataclasses.replace(video, inputs=(points.inputs, video.inputs))
                yield picture._replace(clip_id=pose.clip_id), batch
