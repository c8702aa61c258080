"""Clips as a PyTorch dataset, straight from a prepared npz or a run; nothing is loaded at once.

For your own loop; `posemill train` adds labels as numbers, normalisation and caches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from posemill.errors import TrainingError
from posemill.files import folder_kind
from posemill.machine.processes import PerProcess
from posemill.npz.clips import read_frames, read_npz_clips, split_by_name
from posemill.npz.mapped import open_npz
from posemill.records import match_splits
from posemill.terminal import counted

Item = dict[str, Any]


class KeypointDataset(Dataset[Item]):
    """The clips of an npz (of ours or of another maker) or of a run, by index.

    An item is a dict: `points` `(T, K, 3)` float32 with 0 where missing, `mask` `(T, K)` bool,
    `scores` `(T, K)` float32, `frame_index` `(T,)` int64, and `clip_id`, `split`, `label` (empty
    where there is none). Files are opened in the process that reads them, so loader workers may
    be forked or spawned; the npz is mapped, a run is read a clip at a time.

    Args:
        path: What `posemill prepare` wrote, or a run folder.
        split: Only this split; all by default.
        transform: Applied to every item.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        split: str | None = None,
        transform: Callable[[Item], Item] | None = None,
    ) -> None:
        self.path = Path(path)
        self.transform = transform
        self._is_run = folder_kind(self.path) == "extraction"
        if self._is_run:
            from posemill.runs.reader import open_run

            self._source = PerProcess[Any](partial(open_run, self.path))
            run = self._source.get()
            every = [
                (split, clip, 0, 0, "") for split in run.splits for clip in run.clip_ids(split)
            ]
        else:
            self._source = PerProcess[Any](partial(open_npz, self.path))
            clips = read_npz_clips(self._source.get())
            splits = [split or split_by_name(self.path) for split in clips.splits]
            starts, ends = clips.offsets[:-1].tolist(), clips.offsets[1:].tolist()
            every = list(zip(splits, clips.clip_ids, starts, ends, clips.labels, strict=True))
        known = sorted({entry[0] for entry in every})
        wanted = known if split is None else match_splits([split], known)[0]
        self._index = [entry for entry in every if entry[0] in wanted]
        if not self._index:
            raise TrainingError(
                "{path}: no clips of split {split!r}; it has {known}",
                path=self.path,
                split=split,
                known=", ".join(known) or "none",
            )

    def __len__(self) -> int:
        return len(self._index)

    def __repr__(self) -> str:
        return f"KeypointDataset({str(self.path)!r}, {counted(len(self), 'clips')})"

    @property
    def lengths(self) -> list[int] | None:
        """Frames of every clip; None for a run, where only reading would tell."""
        return None if self._is_run else [stop - start for _, _, start, stop, _ in self._index]

    @property
    def labels(self) -> list[str]:
        """The label of every clip, as text; empty where there is none (for a run: read them)."""
        return [entry[4] for entry in self._index]

    def __getitem__(self, index: int) -> Item:
        split, clip_id, start, stop, label = self._index[index]
        if self._is_run:
            frames = self._source.get().clip(clip_id, split)
            label, frame_index = frames.label or "", frames.frame_indices
        else:
            frames = read_frames(self._source.get(), slice(start, stop))
            frame_index = frames.frame_index
        points = np.where(frames.mask[..., None], frames.points, np.float32(0))
        item = {
            "points": torch.from_numpy(points),
            "mask": torch.from_numpy(np.array(frames.mask)),
            "scores": torch.from_numpy(np.array(frames.scores)),
            "frame_index": torch.from_numpy(np.array(frame_index)),
            "clip_id": clip_id,
            "split": split,
            "label": label,
        }
        return self.transform(item) if self.transform else item


def pad_clips(items: Sequence[Item]) -> Item:
    """Return a batch padded to its longest clip, for `DataLoader(collate_fn=pad_clips)`.

    `points` `(B, T, K, 3)`, `mask` and `scores` `(B, T, K)`, `frame_index` `(B, T)` (-1 after the
    end), `lengths` `(B,)`, and lists of `clip_id`, `split` and `label`.
    """
    batch: Item = {
        name: pad_sequence(
            [item[name] for item in items],
            batch_first=True,
            padding_value=-1 if name == "frame_index" else 0,
        )
        for name in ("points", "mask", "scores", "frame_index")
    }
    batch["lengths"] = torch.tensor([len(item["points"]) for item in items])
    return batch | {name: [item[name] for item in items] for name in ("clip_id", "split", "label")}
