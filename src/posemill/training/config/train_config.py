"""`TrainConfig`: every setting of a training. A flag of `posemill train` is a field here.

Nothing here imports torch: the command line, the sweep and `--show-config` read it first.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, get_type_hints

from posemill.errors import ConfigError

GROUPS = ("data", "model", "augmentation", "optimisation", "speed", "output")


def _set(
    group: str,
    default: Any,
    help: str,
    *,
    choices: tuple[str, ...] = (),
    least: float | None = None,
    most: float | None = None,
) -> Any:
    """Return a dataclass field with what the command line and the checks need to know of it."""
    metadata = {"group": group, "help": help, "choices": choices, "least": least, "most": most}
    if isinstance(default, (list, dict)):
        return dataclasses.field(default_factory=lambda: type(default)(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


_data = partial(_set, "data")
_model = partial(_set, "model")
_augment = partial(_set, "augmentation")
_optimise = partial(_set, "optimisation")
_speed = partial(_set, "speed")
_output = partial(_set, "output")


@dataclass(frozen=True)
class TrainConfig:
    """Every setting of a training, checked when it is made; the help of each is in its field."""

    # --- data
    data: str = _data(
        "", "Folder `posemill prepare` wrote, or npz with `keypoints` and `video_ids`."
    )
    labels: str = _data(
        "", "CSV with `video_id`, `label`, perhaps `split`; or PHOENIX annotations."
    )
    task: str = _data(
        "classify", "One label a clip, or a sequence of glosses.", choices=("classify", "ctc")
    )
    train_split: str = _data("train", "Split to learn from.")
    val_split: str = _data("dev", "Split that picks the best checkpoint.")
    test_split: str = _data("test", "Split evaluated once, at the end, where it exists.")
    dev_fraction: float = _data(
        0.0, "Share of the training clips set aside as dev; 0: as the data is.", least=0, most=0.9
    )
    folds: int = _data(0, "Cross-validation: number of folds; 0 for none.", least=0)
    fold: int = _data(0, "Cross-validation: the fold to test on, 0 to folds - 1.", least=0)
    split_seed: int = _data(0, "Seed of the folds and of the dev share.", least=0)
    unit: str = _data("clip", "A sample is a clip, or each frame.", choices=("clip", "frame"))
    skeleton: str = _data("auto", "Layout: auto (by the number of points), none, or a name.")
    normalize: str = _data(
        "auto",
        "Centre and scale: part by part, all points at once, or not at all.",
        choices=("auto", "parts", "whole", "none"),
    )
    num_dims: int = _data(0, "Coordinates of a point to use, 2 or 3; 0: all.", least=0, most=3)
    num_frames: int = _data(0, "Resample every clip to so many frames; 0 keeps lengths.", least=0)
    max_frames: int = _data(0, "Resample longer clips to so many frames; 0: no limit.", least=0)
    short_clips: str = _data(
        "error", "A training clip too short for its glosses (ctc).", choices=("error", "drop")
    )
    csv_dims: int = _data(2, "Numbers of a point where the data is a CSV.", least=1)
    csv_frames: int = _data(1, "Frames in a row where the data is a CSV.", least=1)
    cache: str = _data(
        "mmap",
        "Where samples wait: a packed file mapped into memory, RAM, HDF5, or made anew.",
        choices=("mmap", "ram", "hdf5", "none"),
    )
    cache_folder: str = _data("", "Folder of the cache; empty for the usual place.")
    bucket_by_length: bool = _data(True, "Put clips of similar length into one batch.")

    # --- model
    model: str = _model("stgcn", "mlp, tcn_bilstm, stgcn, transformer.")
    model_options: dict[str, Any] = _model({}, "The model's own settings, as name=value.")  # noqa: RUF009
    loss_options: dict[str, Any] = _model({}, "The loss's own settings, as name=value.")  # noqa: RUF009
    label_smoothing: float = _model(
        0.0, "Share of the target spread over all classes.", least=0, most=0.9
    )
    decoder: str = _model(
        "greedy", "How glosses are read out of CTC scores.", choices=("greedy", "beam")
    )
    beam_width: int = _model(10, "Prefixes kept by the beam decoder.", least=1)

    # --- augmentation (of the training split; each 0 is off)
    augment_rotate: float = _augment(0.0, "Largest turn in the picture plane, degrees.", least=0)
    augment_scale: float = _augment(0.0, "Largest change of size, as a share.", least=0, most=0.9)
    augment_shift: float = _augment(
        0.0, "Largest shift, in units of the normalised points.", least=0
    )
    augment_noise: float = _augment(0.0, "Spread of noise on each point, same units.", least=0)
    augment_time_warp: float = _augment(
        0.0, "Largest change of speed, as a share.", least=0, most=0.9
    )
    augment_crop: float = _augment(
        0.0, "Largest share of a clip cut off at its ends.", least=0, most=0.9
    )
    augment_joint_dropout: float = _augment(
        0.0, "Chance that a point is dropped from a clip.", least=0, most=0.9
    )
    augment_part_dropout: float = _augment(
        0.0, "Chance that a hand or the face goes missing for a while.", least=0, most=0.9
    )
    augment_mirror: float = _augment(
        0.0, "Chance of a mirrored clip, left and right swapped.", least=0, most=1
    )

    # --- optimisation
    epochs: int = _optimise(40, "Passes over the training split.", least=1)
    max_steps: int = _optimise(
        0, "Stop after this many optimizer steps; 0: by epochs only.", least=0
    )
    batch_size: int = _optimise(64, "Clips in one optimizer step, over all processes.", least=1)
    lr: float = _optimise(1e-3, "Learning rate at its highest.", least=0)
    optimizer: str = _optimise(
        "adamw", "How weights follow gradients.", choices=("adamw", "adam", "sgd")
    )
    weight_decay: float = _optimise(
        1e-2, "Pull of the weights towards zero; not on biases and norms.", least=0
    )
    momentum: float = _optimise(0.9, "Momentum of sgd.", least=0, most=1)
    scheduler: str = _optimise(
        "cosine",
        "Course of the learning rate after warm-up.",
        choices=("constant", "linear", "cosine", "one-cycle", "step"),
    )
    warmup_epochs: float = _optimise(1.0, "Epochs of linear warm-up from 0.", least=0)
    final_lr: float = _optimise(
        0.0, "Share of lr that linear, cosine and one-cycle end at.", least=0, most=1
    )
    step_epochs: list[float] = _optimise([], "Epochs where scheduler step lowers lr.")  # noqa: RUF009
    step_gamma: float = _optimise(0.2, "Scheduler step: the factor.", least=0, most=1)
    clip_grad_norm: float = _optimise(1.0, "Largest norm of the gradient; 0: no clipping.", least=0)
    ema_decay: float = _optimise(
        0.0, "Moving average of the weights, used to evaluate; 0: off.", least=0, most=0.99999
    )
    patience: int = _optimise(
        0, "Stop after this many evaluations without a better one; 0: never.", least=0
    )
    seed: int = _optimise(
        0, "Seed of the weights, the order, the augmentation and dropout.", least=0
    )

    # --- speed
    preset: str = _speed(
        "balanced",
        "Bundle of speed settings; none changes the global batch or lr.",
        choices=("high-performance", "balanced", "memory-limited", "extreme"),
    )
    mode: str = _speed(
        "auto",
        "One thread, several threads, several processes, or what a probe finds fastest.",
        choices=("auto", "single", "multi_thread", "multi_process"),
    )
    processes: int = _speed(0, "Ranks of multi_process; 0: one a GPU, or one a core.", least=0)
    threads: int = _speed(0, "Threads of each process; 0: cores // processes.", least=0)
    device: str = _speed("auto", "auto, cpu, cuda or cuda:N.")
    precision: str = _speed(
        "auto", "Number format of the forward pass.", choices=("auto", "fp32", "bf16", "fp16")
    )
    micro_batch: int = _speed(32, "Most clips in one forward pass; more are accumulated.", least=1)
    num_workers: int = _speed(
        -1, "Loader processes of each rank; -1: by the preset and the cores.", least=-1
    )
    prefetch_factor: int = _speed(2, "Batches that each loader keeps ready.", least=1)
    pin_memory: bool = _speed(True, "Page-locked batches (GPU only).")
    persistent_workers: bool = _speed(True, "Keep loader processes between epochs.")
    compile: str = _speed(
        "auto",
        "torch.compile the model; auto: on a GPU with a fast preset, never on a CPU.",
        choices=("auto", "on", "off"),
    )
    activation_checkpointing: bool = _speed(
        False, "Compute activations twice to hold fewer of them."
    )
    deterministic: bool = _speed(False, "Bit-equal reruns, at some cost.")
    cudnn_benchmark: bool = _speed(True, "Let cuDNN time its kernels (off when deterministic).")

    # --- output
    out: str = _output("", "Folder of the run.")
    resume: bool = _output(False, "Continue the run in `out` where its last checkpoint is.")
    eval_every: int = _output(
        1, "Epochs between evaluations; the last epoch always has one.", least=1
    )
    save_every: int = _output(
        1, "Epochs between checkpoints; the last epoch always has one.", least=1
    )
    save_every_steps: int = _output(0, "Also a checkpoint every so many steps; 0: no.", least=0)
    log_every: int = _output(10, "Steps between lines of the log.", least=1)
    tensorboard: bool = _output(True, "Write TensorBoard logs where the package is installed.")
    figures: bool = _output(
        True, "Draw curves, confusion matrix and sample predictions at the end."
    )
    progress: bool = _output(True, "Show a progress bar on stderr.")

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            object.__setattr__(self, name, check_value(name, value))
        if self.folds == 1 or (self.folds and self.fold >= self.folds):
            raise ConfigError(
                f"fold = {self.fold} of folds = {self.folds}: expected at least two folds and "
                "fold from 0 to folds - 1"
            )
        if self.scheduler == "step" and not self.step_epochs:
            raise ConfigError("scheduler = 'step' needs step_epochs, for example [20, 35]")
        if self.mode == "single" and self.processes > 1:
            raise ConfigError(
                f"mode = 'single' has one process, but processes = {self.processes}; "
                "use mode = 'multi_process'"
            )

    def replace(self, **changes: Any) -> TrainConfig:
        """Return a copy with some fields changed; unknown names are an error with the near one."""
        check_names(changes)
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields by name, in order."""
        return dataclasses.asdict(self)


FIELDS: Mapping[str, dataclasses.Field[Any]] = {
    field.name: field for field in dataclasses.fields(TrainConfig)
}


@cache
def field_types() -> Mapping[str, Any]:
    """Return the type of each field: str, int, float, bool, list[float] or dict[str, Any]."""
    return get_type_hints(TrainConfig)


def check_names(names: Mapping[str, Any], *, where: str = "") -> None:
    """Raise `ConfigError` for the first name that is no field, with the nearest one."""
    for name in names:
        if name in FIELDS:
            continue
        near = difflib.get_close_matches(name, FIELDS, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else "; see: posemill train --help"
        raise ConfigError(f"{where}{': ' if where else ''}unknown setting {name!r}{hint}")


def check_value(name: str, value: Any) -> Any:
    """Return the value in the type of its field, or raise `ConfigError` with what was expected."""
    kind, meta = field_types()[name], FIELDS[name].metadata
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if kind == list[float] and isinstance(value, (list, tuple)):
        value = [float(entry) if isinstance(entry, int) else entry for entry in value]
    plain = {list[float]: list, dict[str, Any]: dict}.get(kind, kind)
    wrong_bool = isinstance(value, bool) and plain is not bool
    if not isinstance(value, plain) or wrong_bool:
        raise ConfigError(f"{name}: expected {plain.__name__}, got {value!r}")
    if meta["choices"] and value not in meta["choices"]:
        near = difflib.get_close_matches(str(value), meta["choices"], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"{name}: expected {' | '.join(meta['choices'])}, got {value!r}{hint}")
    if isinstance(value, (int, float)):
        least, most = meta["least"], meta["most"]
        if (least is not None and not value >= least) or (most is not None and not value <= most):
            limits = f"at least {least}" if most is None else f"{least} to {most}"
            raise ConfigError(f"{name}: expected {limits}, got {value}")
    return value
