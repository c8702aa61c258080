"""What is learned from, as settings: the clips, their augmentation, the frames of videos."""

from __future__ import annotations

from typing import Any

from posemill.errors import ConfigError
from posemill.settings import Settings, setting
from posemill.training.config.kinds import AUTO, join_streams
from posemill.training.config.run_settings import USUAL, amount, choice, count

DEV_SHARE = 0.15

# What helped on people that the model had not seen; docs/training.md has the numbers.
USUAL_AUGMENTATION = {"rotate": 10.0, "scale": 0.1, "noise": 0.02, "time_warp": 0.2, "crop": 0.1}


def _usual(help_text: str, name: str, most: float | None = None) -> Any:
    auto = f"{USUAL_AUGMENTATION[name]:g}; 0 for ctc and for numbers as they are (normalize none)"
    return setting(help_text, default=None, least=0, most=most, auto=auto)


def _usual_split(name: str) -> str:
    from posemill.records import usual_split  # numpy, which --help does without

    return usual_split(name)


class DataSettings(Settings):
    """What is read, how it is cut into splits, and what happens to a clip once."""

    path: str = setting(
        "Folder `posemill prepare` or `posemill frames` wrote, npz with `keypoints` and "
        "`video_ids`, list (path, split, label) or folder of videos.",
        default="",
        flat="data",
        convert=join_streams,
    )
    labels: str = setting(
        "CSV with `video_id`, `label`, perhaps `split`; or PHOENIX annotations. Without it a list "
        "or an npz has its own labels, and a folder of videos a folder for each label.",
        default="",
    )
    task: str = choice("One label a clip, or a sequence of glosses.", ("classify", "ctc"))
    train_split: str = setting("Split to learn from.", default="train")
    val_split: str = setting("Split that picks the best checkpoint; empty: none.", default="dev")
    test_split: str = setting("Split evaluated once, at the end, where it exists.", default="test")
    dev_fraction: float | None = amount(
        "Share of the training clips set aside as dev where there is no dev split; 0: none.",
        default=None,
        most=0.9,
        auto="0.15, the same of every class; with folds or leave_out none",
    )
    folds: int = count("Cross-validation: number of folds; 0 for none.")
    fold: int = count("Cross-validation: the fold to test on, 0 to folds - 1.")
    folds_by: str = setting(
        "Column of the labels, such as signer, whose clips stay in one fold.", default=""
    )
    leave_out: str = setting(
        "Column of the labels, such as signer: train once for each of its values on all others, "
        "and test on that one; column=value: only that.",
        default="",
    )
    split_seed: int = count("Seed of the folds and of the dev share.")
    unit: str = choice("A sample is a clip, or each frame.", ("clip", "frame"))
    skeleton: str = setting(
        "Names of the points: auto (by their number), none, or a skeleton.", default="auto"
    )
    normalize: str = choice(
        "Centre and scale: part by part, all points at once, or not at all.",
        ("auto", "parts", "whole", "none"),
    )
    num_dims: int | None = count(
        "Coordinates of a point to use, 2 or 3; 0: all.",
        default=None,
        most=3,
        auto="x and y of a known skeleton, whose depth is a guess; all of another",
    )
    num_frames: int = count("Resample every clip to so many frames; 0 keeps lengths.")
    max_frames: int = count("Resample longer clips to so many frames; 0: no limit.")
    short_clips: str = choice("A training clip too short for its glosses (ctc).", ("error", "drop"))
    missing_labels: str = choice(
        "A clip without a label: the end of the training, or leave it out.", ("error", "drop")
    )
    csv_dims: int = setting("Numbers of a point where the data is a CSV.", default=2, least=1)
    csv_frames: int = setting("Frames in a row where the data is a CSV.", default=1, least=1)
    cache: str = choice(
        "Where samples wait: a packed file mapped into memory, RAM, HDF5, or made anew.",
        ("mmap", "ram", "hdf5", "none"),
        default=USUAL["cache"],
        auto="by the preset: mmap, none of video",
    )
    cache_folder: str = setting("Folder of the cache; empty for the usual place.", default="")
    bucket_by_length: bool = setting("Put clips of similar length into one batch.", default=True)
    kind: str = setting(
        "What the data are: keypoints, video, two_streams (keypoints and videos of the same "
        "clips), or auto.",
        default=AUTO,
        flat="data_kind",
        auto="by what the path holds",
    )

    def check(self) -> None:
        """Raise `ConfigError` where settings of the clips do not go together."""
        if self.folds == 1 or (self.folds and self.fold >= self.folds):
            raise ConfigError(
                "{--fold:{fold}} of {--folds:{folds}}: expected at least two folds and a "
                "fold from 0 to folds - 1",
                fold=self.fold,
                folds=self.folds,
            )
        if self.folds and self.leave_out:
            raise ConfigError(
                "{--folds:{folds}} and {--leave-out:{leave_out}} both say which clips are "
                "test: give one of them",
                folds=self.folds,
                leave_out=self.leave_out,
            )
        if self.skeleton not in ("auto", "none"):
            from posemill.skeletons import full_name  # numpy, which --help does without

            full_name(self.skeleton)

    @property
    def training_split(self) -> str:
        """The usual name of the split to learn from."""
        return _usual_split(self.train_split)

    @property
    def dev_share(self) -> float:
        """The share of the training clips to set aside where there is no dev split."""
        if self.dev_fraction is not None:
            return self.dev_fraction
        # A share of the same people says nothing about others: with these, all of them train. And
        # where another split picks the best checkpoint, nothing is needed.
        is_needed = _usual_split(self.val_split) == "dev" and not (self.folds or self.leave_out)
        return DEV_SHARE if is_needed else 0.0

    @property
    def group_column(self) -> str:
        """The column that clips must have; empty where none was named."""
        return self.left_out[0] or self.folds_by

    @property
    def left_out(self) -> tuple[str, str | None]:
        """Column and value of `leave_out`; None where it names a column only."""
        column, found, value = self.leave_out.partition("=")
        return column.strip(), value.strip() if found else None


class AugmentationSettings(Settings, flat_prefix="augment_"):
    """What happens to a training clip every epoch; each 0 is off."""

    rotate: float | None = _usual("Largest turn in the picture plane, degrees.", "rotate")
    scale: float | None = _usual("Largest change of size, as a share.", "scale", 0.9)
    shift: float = amount("Largest shift, in units of the normalised points.")
    noise: float | None = _usual("Spread of noise on each point, same units.", "noise")
    time_warp: float | None = _usual("Largest change of speed, as a share.", "time_warp", 0.9)
    crop: float | None = _usual("Largest share of a clip cut off at its ends.", "crop", 0.9)
    joint_dropout: float = amount("Chance that a point is dropped from a clip.", most=0.9)
    part_dropout: float = amount(
        "Chance that a hand or the face goes missing for a while.", most=0.9
    )
    mirror: float = amount("Chance of a mirrored clip, left and right swapped.", most=1)


class VideoSettings(Settings, flat_prefix="video_"):
    """Clips of pixels: which frames, in what size, and what happens to a clip every epoch."""

    sampling: str = setting(
        "Frames of a clip: segments:8, dense:32/64, uniform:16, stride:2, fps:12.5, all.",
        default="segments:8",
    )
    # Below 32 the last stage of a network begins with one place, of which oneDNN's gradient in bf16
    # (torch 2.13, stride 2) is memory that nobody wrote.
    size: int = setting("Width and height of a frame, in pixels.", default=112, least=32)
    resize: str = choice(
        "Keep the proportions and the middle, or all of the picture.", ("crop", "stretch")
    )
    decoder: str = setting(
        "What reads videos: pyav, opencv, torchcodec, decord, or auto.", default="pyav"
    )
    on_error: str = choice(
        "A clip that cannot be read: another of its label, none, or the end of the training.",
        ("replace", "drop", "raise"),
    )
    scale: float = setting(
        "Least share of the picture's area that is seen; 1: always all of it.",
        default=0.5,
        above=0,
        most=1,
    )
    flip: float = amount("Chance of a mirrored clip: off, since left and right matter.", most=1)
    flip_labels: dict[str, Any] = setting(
        "Labels that change when mirrored, as left=right.", default={}
    )
    colour: float = amount(
        "Largest change of brightness, contrast and saturation, as a share.", default=0.2, most=1
    )
    erase: float = amount("Chance that a part of the picture is greyed out.", most=1)
    precompute: int = count(
        "Compute what a frozen backbone says of so many draws of each training clip once, and "
        "train on that; 0: in every epoch anew."
    )

    def check(self) -> None:
        """Raise `ConfigError` for frames that cannot be chosen so."""
        if self.sampling == self.all_fields()["video_sampling"].default:
            return
        from posemill.decoders.sampling import Sampling  # numpy, which --help does without

        try:
            Sampling.parse(self.sampling)
        except ValueError as error:
            raise ConfigError("{--video-sampling}: {error}", error=error) from error
