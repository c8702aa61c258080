"""`VideoClips`: clips of pixels as a PyTorch data set, read when they are asked for."""

from __future__ import annotations

import copy
import dataclasses
import logging
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset, default_collate, get_worker_info

from posemill.decoders import find_decoder
from posemill.decoders.choice import AUTO, USUAL, access_of, choose
from posemill.decoders.pictures import use_one_thread
from posemill.decoders.sampling import Sampling
from posemill.errors import DecodeError, SourceError, TrainingError
from posemill.messages import Message
from posemill.records import Clip, match_splits, usual_split
from posemill.training.video.index import Index, lengths_of, read_index
from posemill.training.video.problems import ClipProblem, Problems
from posemill.training.video.reading import ClipReader, FrameCache, FrameSize
from posemill.training.video.transform import MIRROR, ClipAugment, plain_view

Item = dict[str, Any]
_RULES = {"replace": "replaced by another of its label", "drop": "left out", "raise": "an error"}
_MOST_TRIES = 20
_LOOKED_AT = 8  # videos, for `decoder="auto"` and for what all take


class VideoClips(Dataset[Item | None]):
    """The clips of a list or a folder by index; frames are read in the process that asks for them.

    An item is a dict: `frames` `(T, height, width, 3)` uint8 RGB, `target` (the number of its
    label in `classes`, -1 where no clip has one), `length` (T), `index` (which clip it is) and
    `view` `(12,)` float32, which says how `ClipTransform` augments it. A batch of `fit`, or of a
    `DataLoader`, has `frames` `(B, T, height, width, 3)`: still bytes, to be made floats and
    augmented on the device, once for the batch, by `ClipTransform`.

    Draws depend on seed, epoch and clip alone in `fit`, and after `set_epoch`; else on torch's
    random state, as those of other data sets. Loader workers may be forked or spawned.

    Args:
        index: A table with columns `path`, `split`, `label`; a folder that `posemill frames` wrote;
            a folder of videos or of folders of pictures; or `Clip`s.
        split: Only this split; all by default.
        sampling: Which frames: `segments:8`, `segments:8x5`, `dense:32/64`, `uniform:16`,
            `stride:2`, `fps:12.5`, `all`. The last three give clips of different lengths, which
            `collate_fn` pads with black.
        size: Width and height of the frames in pixels, one number for a square; None leaves them.
        resize: `crop` keeps the proportions and the middle, `stretch` all of the picture.
        is_training: Draw frames and augmentation at random; by default if `split` is `train`.
        augment: How training clips are augmented.
        decoder: Of videos: `pyav`, `opencv`, `torchcodec`, `decord`; `auto`: the quickest with the
            same frames by `posemill bench decode`, and pyav for files that it refuses.
        classes: Labels in the order of their numbers; by default those of all splits, sorted.
        on_error: What is done with a clip that cannot be read: `replace` it by the next one of its
            label that can, `drop` it from its batch (a batch of nothing else gets one replaced),
            or `raise`. It is logged and counted; see `problems`.
        seed: Of all draws.
        max_open: Files that a process keeps open.
        cache: Decode each video once, whole, and keep its frames on the disk in the size asked
            for: 38 kB a frame of 112 x 112. 5 GB of the disk stay free.
        cache_folder: Where; below posemill's cache folder by default.

    Raises:
        SourceError: There are no clips, or those of a list are not there.
        TrainingError: Labels and classes do not go together.
    """

    def __init__(
        self,
        index: str | os.PathLike[str] | Iterable[Clip] | Index,
        *,
        split: str | None = None,
        sampling: str | Sampling = "segments:8",
        size: int | tuple[int, int] | None = 112,
        resize: str = "crop",
        is_training: bool | None = None,
        augment: ClipAugment | None = None,
        decoder: str = "pyav",
        classes: Sequence[str] | None = None,
        on_error: str = "replace",
        seed: int = 0,
        max_open: int = 8,
        cache: bool = False,
        cache_folder: str | os.PathLike[str] | None = None,
    ) -> None:
        if on_error not in _RULES:
            raise ValueError(f"on_error: expected replace, drop or raise, got {on_error!r}")
        self.sampling = Sampling.parse(sampling)
        size_wh = (size, size) if isinstance(size, int) else size
        frame_size = FrameSize(size_wh, resize)
        found, refused_to = read_index(index), None
        if decoder != AUTO:
            find_decoder(decoder)
        else:  # by a look at some of the videos
            videos = [clip.path for clip in found.clips if clip.kind == "video"]
            choice = choose(_some(videos), access_of(self.sampling.num_frames))
            logging.getLogger("posemill").info("decoder %s: %s", choice.decoder, choice.why)
            decoder, refused_to = choice.decoder, USUAL
        self._reader = ClipReader(
            frame_size,
            decoder=decoder,
            max_open=max_open,
            refused_to=refused_to,
            is_cached=cache,
            cache_folder=cache_folder,
        )
        self.classes = _find_classes(found.clips, classes)
        self.clips = _of_split(found.clips, split)
        by_split = split is not None and usual_split(split) == "train"
        self.is_training = by_split if is_training is None else is_training
        self.augment = augment if self.is_training else None
        self._mirrored = augment.mirrored_classes(self.classes) if augment else None
        self.on_error, self.seed, self.split = on_error, seed, split
        self.may_drop = on_error == "drop"  # whether an item may be None
        is_drawn = self.sampling.kind in ("segments", "dense") or augment is not None
        self.is_random = self.is_training and is_drawn  # whether two readings may differ
        self.labels = [clip.label or "" for clip in self.clips]
        numbers = {name: number for number, name in enumerate(self.classes)}
        self.targets = [numbers.get(label, -1) for label in self.labels]
        labels = {clip.clip_id: clip.label or "" for clip in self.clips}
        self._problems = Problems(_RULES[on_error], labels)
        self._strides: tuple[int, int] | None = None
        if on_error == "raise":
            found.expect_all(index)
        for clip in found.missing:
            reason = Message("{path!r}: missing: no such file", path=clip.path)
            self._problems.add(clip.clip_id, reason, "left out")

    @property
    def decoder(self) -> str:
        """What reads videos; what `auto` came to."""
        return self._reader.decoder

    @property
    def cache(self) -> FrameCache | None:
        """What keeps decoded videos; None decodes each time."""
        return self._reader.cache

    def __len__(self) -> int:
        return len(self.clips)

    def __repr__(self) -> str:
        return (
            f"VideoClips({len(self)} clips, {len(self.classes)} classes, sampling "
            f"{str(self.sampling)!r}, size {self._reader.size.size_wh})"
        )

    @property
    def size(self) -> FrameSize:
        """The size of the frames."""
        return self._reader.size

    def reshaped(self, num_frames: int, size: int) -> VideoClips:
        """Return the same clips with another number of frames, which must be fixed, and size.

        Fewer frames of a training clip's `dense` window lie in a window of a drawn length, up to
        all of it.
        """
        whole = self.sampling.num_frames
        if whole is None:
            raise ValueError(f"sampling {self.sampling}: the number of frames follows from a clip")
        made = copy.copy(self)
        count = max(1, round(num_frames / self.sampling.length))
        made.sampling = dataclasses.replace(self.sampling, count=count)
        if self.sampling.kind == "dense":
            stride = self.sampling.window // whole
            made._strides = (stride, stride * max(1, whole // num_frames))
        frame_size = FrameSize((size, size), self.size.resize)
        made._reader = dataclasses.replace(self._reader, size=frame_size)
        return made

    @property
    def lengths(self) -> list[int] | None:
        """Frames of every item; None where only opening the clips would tell."""
        return lengths_of(self.clips, self.sampling)

    def problems(self) -> list[ClipProblem]:
        """Return the clips that could not be read so far, in all processes: id, why, how often."""
        return self._problems.found()

    def estimate_bytes(self) -> int | None:
        """Return about what all frames of the videos take decoded in the size; None without any."""
        videos = [clip for clip in self.clips if clip.kind == "video"]
        some = [self._reader.count_bytes(clip) for clip in _some(videos)]
        known = [count for count in some if count is not None]
        return round(sum(known) / len(known) * len(videos)) if known else None

    def set_epoch(self, epoch: int) -> None:
        """Let all draws follow from seed, epoch and clip, also in loader processes that run."""
        self._problems.set_epoch(epoch)

    def close(self) -> None:
        """Close the files of this process; reading goes on opening them."""
        self._reader.close()

    def __getitem__(self, index: int) -> Item | None:
        epoch = self._problems.read_epoch()
        if epoch is None:
            # torch seeds each loader process anew in every epoch
            epoch = int(torch.randint(1 << 31, ())) if self.is_random else 0
        return self.at_epoch(index, epoch)

    def at_epoch(self, index: int, epoch: int, *, is_planned: bool = False) -> Item | None:
        """Return the item of a clip in an epoch; `[index]` with the epoch said.

        `is_planned`: for who decodes it: `path` and frame numbers `indices`, no `frames`.
        """
        index = int(index) + (len(self) if index < 0 else 0)
        if not 0 <= index < len(self):
            raise IndexError(f"clip {index} of {len(self)}")
        try:
            return self._make_item(index, epoch, is_planned=is_planned)
        except DecodeError as error:
            if self.on_error == "raise":
                raise
            self._problems.add(self.clips[index].clip_id, error.sentence)
            return None if self.may_drop else self.replacement(index, epoch, is_planned=is_planned)

    def replacement(self, index: int, epoch: int = 0, *, is_planned: bool = False) -> Item:
        """Return the item of the next clip with the label of that one that can be read."""
        target, others = self.targets[index], [*range(index + 1, len(self)), *range(index)]
        same = (i for i in others if self.targets[i] == target)
        different = (i for i in others if self.targets[i] != target)
        order, last = list(islice(chain(same, different), _MOST_TRIES)), None
        for other in order:
            try:
                return self._make_item(other, epoch, is_planned=is_planned)
            except DecodeError as error:
                last = error
        raise TrainingError(
            "clip {clip_id!r} cannot be read, and none of the {num_tried} that could stand "
            "for it: {reason}",
            clip_id=self.clips[index].clip_id,
            num_tried=len(order),
            reason=last or Message("there is none"),
        ) from last

    def _make_item(self, index: int, epoch: int, *, is_planned: bool) -> Item:
        if get_worker_info() is not None:
            use_one_thread()
        rng = np.random.default_rng([self.seed, epoch, index]) if self.is_training else None
        sampling, place, target = self.sampling, self.clips[index], self.targets[index]
        if rng is not None and self._strides is not None:
            stride = int(rng.integers(*self._strides, endpoint=True))
            sampling = dataclasses.replace(sampling, window=stride * sampling.count)
        if is_planned:
            indices = self._reader.sample_video(place, sampling, rng)
            item: Item = {"path": place.path, "indices": indices}
        else:
            frames, indices = self._reader.read(place, sampling, rng)
            item = {"frames": torch.from_numpy(frames)}
        view = plain_view()
        if self.augment is not None and rng is not None:
            view = self.augment.draw(rng)
            if self._mirrored is not None and view[MIRROR]:
                target = self._mirrored[target]
        facts = {"target": target, "length": len(indices), "index": index}
        return {**item, **facts, "view": torch.from_numpy(view)}

    def collate_fn(self, items: Sequence[Item | None]) -> Item:
        """Return the batch of some items: shorter clips padded with black, dropped ones left out.

        `fit` uses it by itself; for a loader of torch: `DataLoader(clips,
        collate_fn=clips.collate_fn)`, or torch's own where every clip has as many frames.
        """
        there = [item for item in items if item is not None] or [self.replacement(0)]
        sizes = {tuple(item["frames"].shape[1:3]) for item in there}
        if len(sizes) > 1:
            some = " and ".join(f"{width} x {height}" for height, width in sorted(sizes)[:2])
            raise ValueError(f"clips of {some} pixels do not fit into one batch; give a size")
        if len({item["length"] for item in there}) > 1:
            padded = pad_sequence([item["frames"] for item in there], batch_first=True)
            there = [{**item, "frames": frames} for item, frames in zip(there, padded, strict=True)]
        batch: Item = default_collate(there)
        return batch


def _some(videos: list[Any]) -> list[Any]:
    return videos[:: max(1, len(videos) // _LOOKED_AT)][:_LOOKED_AT]


def _find_classes(clips: Sequence[Clip], wanted: Sequence[str] | None) -> list[str]:
    """Return the labels in the order of their numbers."""
    counts = Counter(clip.label or "" for clip in clips)
    bare = counts.pop("", 0)
    if counts and bare:
        first = next(clip.clip_id for clip in clips if not clip.label)
        raise TrainingError(
            "{num_bare} of {num_clips} clips have no label, the first is {first!r}; give "
            "them one, or leave them out of the list",
            num_bare=bare,
            num_clips=len(clips),
            first=first,
        )
    names = sorted(counts) if wanted is None else list(wanted)
    if unknown := sorted(set(counts) - set(names)):
        raise TrainingError(
            "classes: expected all labels, {label!r} is not among them", label=unknown[0]
        )
    return names


def _of_split(clips: list[Clip], split: str | None) -> list[Clip]:
    if split is None:
        return clips
    there = {clip.split for clip in clips}
    wanted, _ = match_splits([split], there)
    if not wanted:
        template = "no clips of split {split!r}; there are {splits}"
        raise SourceError(template, split=split, splits=", ".join(sorted(there)))
    return [clip for clip in clips if clip.split in wanted]
