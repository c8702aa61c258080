"""Clips of pixels; nothing is decoded to know them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from posemill.decoders.choice import USUAL
from posemill.decoders.sampling import Sampling
from posemill.errors import DecodeError, TrainingError
from posemill.records import Clip, FloatArray, IntArray, usual_split
from posemill.training.config.data_settings import DataSettings
from posemill.training.data.batches import Batch, Draw, pad_targets
from posemill.training.data.clips import (
    LONG_CYCLE,
    SHORT_CYCLE,
    TIME_ONLY,
    Grid,
    Picture,
    Shape,
    SplitClips,
    Target,
    keep_readable,
)
from posemill.training.data.labels import LabelledClip, label_clips
from posemill.training.video.index import Index, lengths_of, place_of, read_index
from posemill.training.video.reading import ClipReader, FrameSize
from posemill.training.video.video_clips import Item, VideoClips

_FIRST_FRAME = Sampling("stride", 1 << 30)


@dataclass(frozen=True, eq=False, kw_only=True)
class PixelClips(SplitClips):
    """The clips of one split. Batches can be had once they are opened."""

    all_places: tuple[Clip, ...]  # where those of the list, and of the readers, are; with labels
    sampling: Sampling
    readers: tuple[VideoClips, ...] = ()  # one for each shape of a batch; empty until opened
    least_size: int = 1  # the smallest side the network takes; Multigrid does not go below

    gives_frames = True

    @cached_property
    def places(self) -> list[Clip]:
        """Where each clip is, with its label."""
        return [self.all_places[row] for row in self.rows]

    @cached_property
    def _known_lengths(self) -> list[int] | None:
        return lengths_of(self.places, self.sampling)

    @cached_property
    def lengths(self) -> IntArray:  # type: ignore[override]
        """`(N,)`: frames that are taken of each clip; all 1 where only opening them would tell."""
        return np.asarray(self._known_lengths or [1] * len(self), np.int64)

    @property
    def has_lengths(self) -> bool:  # type: ignore[override]
        """Whether the frames of each clip are known."""
        return self._known_lengths is not None

    @property
    def shape(self) -> Mapping[str, Any]:
        """Frames of a clip; 0 where clips differ."""
        return {"num_frames": self.sampling.num_frames or 0}

    @property
    def video(self) -> VideoClips | None:
        """What reads the clips whole."""
        return self.readers[0] if self.readers else None

    @property
    def num_short(self) -> int:
        """Clips known to have fewer frames than are taken of them, which are then repeated."""
        count = self.sampling.num_frames or 0
        known = [place.num_frames for place in self.places if place.num_frames is not None]
        return sum(num_frames < count for num_frames in known)

    def opened(self, reader: VideoClips, *, least_size: int = 1) -> PixelClips:
        """Return the clips with what reads them, which has these and no others."""
        return dataclasses.replace(
            self,
            readers=(reader,),
            all_places=tuple(self.places),
            rows=np.arange(len(self)),
            least_size=least_size,
        )

    @cached_property
    def _target_of_label(self) -> dict[str, Target]:
        return dict(zip((place.label or "" for place in self.places), self.targets, strict=True))

    def __getitems__(self, draws: Sequence[Draw]) -> Batch:
        """Return the batch of these draws; clips that were dropped are left out."""
        reader = self.readers[draws[0].turn]
        found = [reader.at_epoch(int(self.rows[draw.clip]), draw.epoch) for draw in draws]
        draws, items = keep_readable(reader, draws, found, self.rows)
        targets = [self._target_of_label[reader.classes[item["target"]]] for item in items]
        return make_batch(reader, items, targets, draws)

    def picture(self, index: int) -> Picture | None:
        """Return a clip as the model is shown it; another of its label if it cannot be read."""
        reader, row = self.readers[0], int(self.rows[index])
        item = reader.at_epoch(row, 0) or reader.replacement(row)
        return Picture(reader.clips[item["index"]].clip_id, frames=item["frames"].numpy())

    def features(self, indices: IntArray) -> FloatArray:
        """Return the first frame of each clip, small and grey; NaN for one that cannot be read."""
        places = [self.places[int(index)] for index in indices]
        reader = ClipReader(FrameSize((16, 16), "stretch"), decoder=USUAL, max_open=1)
        found = np.full((len(places), 16 * 16), np.nan, np.float32)
        for row, place in enumerate(places):
            with suppress(DecodeError):  # the training says what cannot be read
                frames, _ = reader.read(place, _FIRST_FRAME, None)
                found[row] = frames[0].mean(-1).ravel()
        reader.close()
        return found

    @property
    def grid(self) -> Grid | None:
        """How clips become shorter and smaller; None for glosses, which need their frames."""
        return grid_of(self.readers[0], self.least_size) if self.task == "classify" else None

    def in_shapes(self, shapes: tuple[Shape, ...]) -> PixelClips:
        """Return the clips in other shapes."""
        frames = shapes[0].num_frames
        readers = tuple(self.readers[0].reshaped(frames, shape.size) for shape in shapes)
        return dataclasses.replace(
            self,
            sampling=readers[0].sampling,
            readers=readers,
            batch_factors=tuple(shape.batch for shape in shapes),
        )


def make_batch(
    reader: VideoClips, items: Sequence[Item], targets: Sequence[Target], draws: Sequence[Draw]
) -> Batch:
    """Return the batch of some items of a data set; `draws` says which they are."""
    collated = reader.collate_fn(items)
    view = collated["view"] if reader.augment is not None else torch.empty(len(items), 0)
    inputs = collated["frames"], collated["length"], view
    return Batch(inputs, lengths=collated["length"], **pad_targets(targets, draws))


def grid_of(reader: VideoClips, least_size: int = 1) -> Grid | None:
    """Return how clips become shorter and smaller; None where their shape is not one and square."""
    frames, size_wh = reader.sampling.num_frames, reader.size.size_wh
    if frames is None or frames < 2 or size_wh is None or size_wh[0] != size_wh[1]:
        return None
    size, (_, share) = size_wh[0], LONG_CYCLE[0]
    return Grid(
        frames,
        size,
        LONG_CYCLE if round(size * share) >= least_size else TIME_ONLY,
        has_short_cycle=round(size * min(SHORT_CYCLE)) >= least_size,
    )


def read_labelled(options: DataSettings) -> tuple[Index, list[LabelledClip]]:
    """Return the clips that are there, and each with its label, split and group."""
    index = read_index(options.path)
    rows = [
        LabelledClip(usual_split(place.split), row, place.clip_id, place.label or "")
        for row, place in enumerate(index.clips)
    ]

    def column_of(name: str) -> list[str]:
        return [place.extra.get(name, "").strip() for place in index.clips]

    return index, label_clips(rows, column_of, options)


def check_labels(index: Index, rows: Sequence[LabelledClip], data: str) -> None:
    """Refuse a list with a label of which no clip is there, or with one clip under two labels."""
    labels = {row.label for row in rows}
    lost = [clip for clip in index.missing if clip.label and clip.label not in labels]
    if lost:
        raise TrainingError(
            "label {label!r} of {data} has no clip: none of its {num_files} files is "
            "there, the first should be {path}",
            label=lost[0].label,
            data=data,
            num_files=sum(clip.label == lost[0].label for clip in lost),
            path=lost[0].path,
        )
    known: dict[Any, str] = {}
    for row in rows:
        clip = index.clips[row.row]
        place = place_of(clip)
        if known.setdefault(place, row.label) != row.label:
            raise TrainingError(
                "{path} stands under two labels in {data}, {other_label!r} and {label!r}: no "
                "model can learn both; take one of the rows out",
                path=clip.path,
                data=data,
                other_label=known[place],
                label=row.label,
            )
