"""`TrainConfig`: every setting of a training, in six groups. A flag of `posemill train` is a field.

Nothing here imports torch: the command line, the sweep and `--show-config` read it first.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from posemill.errors import ConfigError
from posemill.settings import Settings, setting
from posemill.training.config.presets import PRESETS, preset_values

# Of the fields that presets set, the default is the usual preset's.
_USUAL = PRESETS["balanced"]
_amount = partial(setting, default=0.0, least=0)
_share = partial(setting, default=0.0, least=0, most=0.9)


# What helped on people that the model had not seen; docs/training.md has the numbers.
_USUAL_AUGMENTATION = {
    "rotate": 10.0, "scale": 0.1, "noise": 0.02, "time_warp": 0.2, "crop": 0.1,
}  # fmt: skip


def _usual(help_text: str, name: str, most: float | None = None) -> Any:
    amount = (
        f"{_USUAL_AUGMENTATION[name]:g}; 0 for ctc and for numbers as they are (normalize none)"
    )
    return setting(help_text, default=None, least=0, most=most, auto=amount)


class DataSettings(Settings):
    """What is read, how it is cut into splits, and what happens to a clip once."""

    path: str = setting(
        "Folder `posemill prepare` wrote, or npz with `keypoints` and `video_ids`.",
        default="",
        flat="data",
    )
    labels: str = setting(
        "CSV with `video_id`, `label`, perhaps `split`; or PHOENIX annotations.", default=""
    )
    task: str = setting(
        "One label a clip, or a sequence of glosses.",
        default="classify",
        choices=("classify", "ctc"),
    )
    train_split: str = setting("Split to learn from.", default="train")
    val_split: str = setting("Split that picks the best checkpoint; empty: none.", default="dev")
    test_split: str = setting("Split evaluated once, at the end, where it exists.", default="test")
    dev_fraction: float | None = setting(
        "Share of the training clips set aside as dev where there is no dev split; 0: none.",
        default=None,
        least=0,
        most=0.9,
        auto="0.15, the same of every class; with folds or leave_out none",
    )
    folds: int = setting("Cross-validation: number of folds; 0 for none.", default=0, least=0)
    fold: int = setting(
        "Cross-validation: the fold to test on, 0 to folds - 1.", default=0, least=0
    )
    leave_out: str = setting(
        "Column of the labels, such as signer: train once for each of its values on all others, "
        "and test on that one; column=value: only that.",
        default="",
    )
    split_seed: int = setting("Seed of the folds and of the dev share.", default=0, least=0)
    unit: str = setting(
        "A sample is a clip, or each frame.", default="clip", choices=("clip", "frame")
    )
    skeleton: str = setting(
        "Names of the points: auto (by their number), none, or a skeleton.", default="auto"
    )
    normalize: str = setting(
        "Centre and scale: part by part, all points at once, or not at all.",
        default="auto",
        choices=("auto", "parts", "whole", "none"),
    )
    num_dims: int | None = setting(
        "Coordinates of a point to use, 2 or 3; 0: all.",
        default=None,
        least=0,
        most=3,
        auto="x and y of a known skeleton, whose depth is a guess; all of another",
    )
    num_frames: int = setting(
        "Resample every clip to so many frames; 0 keeps lengths.", default=0, least=0
    )
    max_frames: int = setting(
        "Resample longer clips to so many frames; 0: no limit.", default=0, least=0
    )
    short_clips: str = setting(
        "A training clip too short for its glosses (ctc).",
        default="error",
        choices=("error", "drop"),
    )
    csv_dims: int = setting("Numbers of a point where the data is a CSV.", default=2, least=1)
    csv_frames: int = setting("Frames in a row where the data is a CSV.", default=1, least=1)
    cache: str = setting(
        "Where samples wait: a packed file mapped into memory, RAM, HDF5, or made anew.",
        default=_USUAL["cache"],
        choices=("mmap", "ram", "hdf5", "none"),
    )
    cache_folder: str = setting("Folder of the cache; empty for the usual place.", default="")
    bucket_by_length: bool = setting("Put clips of similar length into one batch.", default=True)


class ModelSettings(Settings):
    """The network, its loss, and how its scores are read."""

    name: str = setting(
        "The network: tcn_bilstm does best on people it has not seen; stgcn is for few points "
        "(on 143 it computes eight times as much).",
        default="tcn_bilstm",
        choices="posemill.training.models:known_models",
        is_open=True,
        flat="model",
    )
    options: dict[str, Any] = setting(
        "The model's own settings, as name=value.", default={}, flat="model_options"
    )
    loss_options: dict[str, Any] = setting("The loss's own settings, as name=value.", default={})
    label_smoothing: float = setting(
        "Share of the target spread over all classes.", default=0.1, least=0, most=0.9
    )
    ctc_decoder: str = setting(
        "How glosses are read out of CTC scores.",
        default="greedy",
        choices=("greedy", "beam"),
        old=("decoder",),
    )
    beam_width: int = setting("Prefixes kept by the beam decoder.", default=10, least=1)


class AugmentationSettings(Settings, flat_prefix="augment_"):
    """What happens to a training clip every epoch; each 0 is off."""

    rotate: float | None = _usual("Largest turn in the picture plane, degrees.", "rotate")
    scale: float | None = _usual("Largest change of size, as a share.", "scale", 0.9)
    shift: float = _amount("Largest shift, in units of the normalised points.")
    noise: float | None = _usual("Spread of noise on each point, same units.", "noise")
    time_warp: float | None = _usual("Largest change of speed, as a share.", "time_warp", 0.9)
    crop: float | None = _usual("Largest share of a clip cut off at its ends.", "crop", 0.9)
    joint_dropout: float = _share("Chance that a point is dropped from a clip.")
    part_dropout: float = _share("Chance that a hand or the face goes missing for a while.")
    mirror: float = _amount("Chance of a mirrored clip, left and right swapped.", most=1)


class OptimisationSettings(Settings):
    """The steps: how many, how large, on how many clips."""

    epochs: int = setting("Passes over the training split.", default=60, least=1)
    max_steps: int = setting(
        "Stop after this many optimizer steps; 0: by epochs only.", default=0, least=0
    )
    batch_size: int = setting(
        "Clips in one optimizer step, over all processes.", default=64, least=1
    )
    lr: float = setting("Learning rate at its highest.", default=0.002, least=0)
    optimizer: str = setting(
        "How weights follow gradients.", default="adamw", choices=("adamw", "adam", "sgd")
    )
    weight_decay: float = setting(
        "Pull of the weights towards zero; not on biases and norms.", default=0.01, least=0
    )
    momentum: float = setting("Momentum of sgd.", default=0.9, least=0, most=1)
    scheduler: str = setting(
        "Course of the learning rate after warm-up.",
        default="cosine",
        choices=("constant", "linear", "cosine", "one-cycle", "step"),
    )
    warmup_epochs: float = setting("Epochs of linear warm-up from 0.", default=1.0, least=0)
    final_lr: float = setting(
        "Share of lr that linear, cosine and one-cycle end at.", default=0.0, least=0, most=1
    )
    step_epochs: list[float] = setting("Epochs where scheduler step lowers lr.", default=[])
    step_gamma: float = setting("Scheduler step: the factor.", default=0.2, least=0, most=1)
    clip_grad_norm: float = setting(
        "Largest norm of the gradient; 0: no clipping.", default=1.0, least=0
    )
    ema_decay: float = setting(
        "Moving average of the weights, used to evaluate; 0: off.",
        default=0.0,
        least=0,
        most=0.99999,
    )
    patience: int = setting(
        "Stop after this many evaluations without a better one; 0: never.", default=0, least=0
    )
    seed: int = setting(
        "Seed of the weights, the order, the augmentation and dropout.", default=0, least=0
    )


class SpeedSettings(Settings):
    """What changes the time a training takes and not its steps."""

    preset: str = setting(
        "Bundle of speed settings; none changes the global batch or lr.",
        default="balanced",
        choices=tuple(PRESETS),
    )
    parallel: str = setting(
        "One thread, several threads, several processes, or what a probe finds fastest.",
        default="auto",
        choices=("auto", "single", "multi_thread", "multi_process"),
        old=("mode",),
    )
    processes: int = setting(
        "Ranks of multi_process; 0: one a GPU, or one a core.", default=0, least=0
    )
    threads: int = setting("Threads of each process; 0: cores // processes.", default=0, least=0)
    device: str = setting("auto, cpu, cuda or cuda:N.", default="auto")
    precision: str = setting(
        "Number format of the forward pass.",
        default="auto",
        choices=("auto", "fp32", "bf16", "fp16"),
    )
    micro_batch: int = setting(
        "Most clips in one forward pass; more are accumulated.",
        default=_USUAL["micro_batch"],
        least=1,
        old=("ims_per_gpu",),
    )
    workers: int = setting(
        "Loader processes of each rank; -1: by the preset and the cores.",
        default=-1,
        least=-1,
        old=("num_workers",),
    )
    prefetch_factor: int = setting(
        "Batches that each loader keeps ready.", default=_USUAL["prefetch_factor"], least=1
    )
    pin_memory: bool = setting("Page-locked batches (GPU only).", default=_USUAL["pin_memory"])
    persistent_workers: bool = setting(
        "Keep loader processes between epochs.", default=_USUAL["persistent_workers"]
    )
    compile: str = setting(
        "torch.compile the model; auto: on a GPU with a fast preset, never on a CPU.",
        default="auto",
        choices=("auto", "on", "off"),
    )
    activation_checkpointing: bool = setting(
        "Compute activations twice to hold fewer of them.",
        default=_USUAL["activation_checkpointing"],
    )
    deterministic: bool = setting("Bit-equal reruns, at some cost.", default=False)
    cudnn_benchmark: bool = setting(
        "Let cuDNN time its kernels (off when deterministic).", default=True
    )


class OutputSettings(Settings):
    """Where a run is written, how often, and what."""

    out: str = setting("Folder of the run.", default="")
    resume: bool = setting("Continue the run in `out` where its last checkpoint is.", default=False)
    eval_every: int = setting(
        "Epochs between evaluations; the last epoch always has one.",
        default=_USUAL["eval_every"],
        least=1,
    )
    save_every: int = setting(
        "Epochs between checkpoints; the last epoch always has one.",
        default=_USUAL["save_every"],
        least=1,
    )
    save_every_steps: int = setting(
        "Also a checkpoint every so many steps; 0: no.", default=0, least=0
    )
    log_every: int = setting("Steps between lines of the log.", default=10, least=1)
    tensorboard: bool = setting(
        "Write TensorBoard logs where the package is installed.", default=True
    )
    figures: bool = setting(
        "Draw curves, confusion matrix and sample predictions at the end.", default=True
    )
    progress: bool = setting("Show a progress bar on stderr.", default=True)


class TrainConfig(Settings, command="train"):
    """Every setting of a training, checked when it is made; the help of each is in its field.

    Settings lie in groups, in Python as in TOML, and each has a flat name that is its flag too:

        TrainConfig(data={"path": "input"}, optimisation={"lr": 2e-3})
        TrainConfig(data="input", lr=2e-3)            # the same
        config.optimisation.lr == config.lr           # read either way

    Flat names are the fields' own, but for `data` (`data.path`), `model` (`model.name`),
    `model_options` (`model.options`) and `augment_rotate` … (`augmentation.rotate` …). What is not
    given comes from the preset, however the configuration is made.
    """

    data: DataSettings
    model: ModelSettings
    augmentation: AugmentationSettings
    optimisation: OptimisationSettings
    speed: SpeedSettings
    output: OutputSettings

    if TYPE_CHECKING:  # groups, or any of their fields by flat name

        def __init__(self, **settings: Any) -> None: ...

    @classmethod
    def preset_values(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what the preset says of the fields that were not given."""
        field = cls.all_fields()["preset"]
        return preset_values(field.check(given.get("preset", field.default)))

    @classmethod
    def translate(cls, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return `precision` for `use_fp16`, and batches for `gradient_accumulation_steps`."""
        result = dict(values)
        if "use_fp16" in result:
            if "precision" in result:
                raise ConfigError("use_fp16 and precision say the same thing: give one of them")
            result["precision"] = "fp16" if result.pop("use_fp16") else "fp32"
        if "gradient_accumulation_steps" in result:
            _set_batches(result, result.pop("gradient_accumulation_steps"))
        return result

    def check(self) -> None:
        """Raise `ConfigError` where settings do not go together."""
        folds, fold = self.data.folds, self.data.fold
        if folds == 1 or (folds and fold >= folds):
            raise ConfigError(
                f"fold = {fold} of folds = {folds}: expected at least two folds and "
                "fold from 0 to folds - 1"
            )
        if folds and self.data.leave_out:
            raise ConfigError(
                f"folds = {folds} and leave_out = {self.data.leave_out!r} both say which clips are "
                "test: give one of them"
            )
        if self.optimisation.scheduler == "step" and not self.optimisation.step_epochs:
            raise ConfigError("scheduler = 'step' needs step_epochs, for example [20, 35]")
        if self.speed.parallel == "single" and self.speed.processes > 1:
            raise ConfigError(
                f"parallel = 'single' has one process, but processes = {self.speed.processes}; "
                "use parallel = 'multi_process'"
            )


def open_augmentation(config: TrainConfig) -> dict[str, float]:
    """Return the amounts that the user left open, by flat name.

    Glosses at the ends of a clip must not be cut off, and what is not centred cannot be turned.
    """
    is_usual = config.task == "classify" and config.normalize != "none"
    return {
        f"augment_{name}": amount if is_usual else 0.0
        for name, amount in _USUAL_AUGMENTATION.items()
        if getattr(config.augmentation, name) is None
    }


def _set_batches(values: dict[str, Any], steps: Any) -> None:
    """Put the global batch for a number of accumulated passes, or the pass for the batch."""
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
        raise ConfigError(f"gradient_accumulation_steps: expected at least 1, got {steps!r}")
    micro = values.get("micro_batch", values.get("ims_per_gpu"))
    if micro is None and isinstance(values.get("batch_size"), int):
        values["micro_batch"] = -(-values["batch_size"] // steps)
        return
    if micro is None:
        micro = preset_values(values.get("preset", "balanced"))["micro_batch"]
    batch = steps * micro * max(1, values.get("processes") or 1)
    if values.setdefault("batch_size", batch) != batch:
        raise ConfigError(
            f"gradient_accumulation_steps = {steps} of {micro} clips make a batch of {batch}, but "
            f"batch_size = {values['batch_size']}: give two of the three"
        )


FIELDS = TrainConfig.all_fields()
GROUPS = tuple(TrainConfig.groups())
