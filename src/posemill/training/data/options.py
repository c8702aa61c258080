"""What `load_sets` has to know about clips: where they are, how they are read and divided."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from posemill.errors import ConfigError
from posemill.skeletons import full_name
from posemill.training.data.cache import CACHE_KINDS
from posemill.training.data.normalize import NORMALIZATIONS

TASKS = ("classify", "ctc")
DEV_SHARE = 0.15


@dataclass(frozen=True)
class DataOptions:
    """Where the clips are and how they are read.

    Args:
        data: What `posemill prepare` wrote; any npz with `keypoints` [N, K, D] and `video_ids` (or
            `lengths`, and perhaps `labels`); a CSV with a label and numbers in each row; or a
            pattern such as `split1_{split}.npz`.
        labels: `labels.csv` (`video_id,label[,split]`), or the PHOENIX annotations (file, folder);
            empty where the data holds its labels.
        task: `classify` or `ctc`.
        skeleton: `auto` (as the file says, or by the number of points), `none`, or a name.
        unit: `clip`, or `frame`: every frame a sample of its own.
        normalize: `auto`, `parts`, `whole` or `none`.
        num_dims: Use so many coordinates of a point; 0: all. None: x and y where the skeleton is
            known, all where it is not.
        num_frames: Resample every clip to so many frames; 0 keeps lengths.
        max_frames: Longer clips are resampled to so many frames; 0 for no limit.
        dev_fraction: Share of the training clips set aside as dev where there is no dev split;
            None for `DEV_SHARE`, and none where the clips are cut into folds or some left out.
        folds: Cut all clips into so many folds; fold `fold` becomes test, the rest train. 0: not.
        fold: Which fold is test.
        folds_by: Column of the labels, or array of the npz: clips with the same value stay in one
            fold. Empty: each clip for itself.
        leave_out: `column=value`: clips with this value in a column of the labels, or in an array
            of the npz, become test, the rest train. Empty: not.
        split_seed: Decides about folds and the dev share.
        cache: `mmap`, `ram`, `hdf5`, or `none`: made anew in memory each time.
        cache_folder: Where caches are kept; empty for the usual place.
        short_clips: What becomes of a training clip too short for its glosses: `error` or `drop`.
        missing_labels: What becomes of a clip without a label: `error` or `drop`.
        csv_dims: Numbers per point in a CSV.
        csv_frames: Frames per row of a CSV.
    """

    data: str
    labels: str = ""
    task: str = "classify"
    skeleton: str = "auto"
    unit: str = "clip"
    normalize: str = "auto"
    num_dims: int | None = 0
    num_frames: int = 0
    max_frames: int = 0
    dev_fraction: float | None = 0.0
    folds: int = 0
    fold: int = 0
    folds_by: str = ""
    leave_out: str = ""
    split_seed: int = 0
    cache: str = "mmap"
    cache_folder: str = ""
    short_clips: str = "error"
    missing_labels: str = "error"
    csv_dims: int = 2
    csv_frames: int = 1

    @classmethod
    def of(cls, config: Any) -> DataOptions:
        """Return the fields that a training's config has under the same names."""
        names = {entry.name for entry in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in config.to_dict().items() if name in names})

    @property
    def dev_share(self) -> float:
        """The share of the training clips to set aside where there is no dev split."""
        if self.dev_fraction is not None:
            return self.dev_fraction
        # A share of the same people says nothing about others: with these, all of them train.
        return 0.0 if self.folds or self.leave_out else DEV_SHARE

    @property
    def group_column(self) -> str:
        """The column that clips must have; empty where none was named."""
        return self.left_out[0] or self.folds_by

    @property
    def left_out(self) -> tuple[str, str | None]:
        """Column and value of `leave_out`; None where it names a column only."""
        column, found, value = self.leave_out.partition("=")
        return column.strip(), value.strip() if found else None

    def __post_init__(self) -> None:
        choices = {
            "task": TASKS,
            "unit": ("clip", "frame"),
            "normalize": NORMALIZATIONS,
            "cache": CACHE_KINDS,
            "short_clips": ("error", "drop"),
            "missing_labels": ("error", "drop"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ConfigError(
                    f"{name}: expected one of {', '.join(allowed)}, got {getattr(self, name)!r}"
                )
        if self.skeleton not in ("auto", "none"):
            full_name(self.skeleton)
        if self.dev_fraction is not None and not 0 <= self.dev_fraction < 1:
            raise ConfigError(f"dev_fraction: expected 0 to below 1, got {self.dev_fraction}")
        if self.folds and not (self.folds >= 2 and 0 <= self.fold < self.folds):
            raise ConfigError(
                f"folds and fold: expected 2 or more folds and fold 0 to {self.folds - 1}, "
                f"got folds={self.folds} fold={self.fold}"
            )
        if self.csv_dims < 1 or self.csv_frames < 1:
            raise ConfigError(
                f"csv_dims and csv_frames: expected 1 or more, got {self.csv_dims}, "
                f"{self.csv_frames}"
            )
