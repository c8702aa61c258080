"""How is learned, as settings: the model, its optimisation, what makes it fast, what is kept.

Presets are named bundles of speed settings; none touches the learning rate or the epochs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from posemill.settings import Settings, setting

amount = partial(setting, default=0.0, least=0)
count = partial(setting, default=0, least=0)
switch = partial(setting, default=False)


def choice(help_text: str, choices: tuple[str, ...], **more: Any) -> Any:
    """Return a field that is one of some words: the first, unless `default` says another."""
    return setting(help_text, **{"default": choices[0], **more}, choices=choices)


# Of the fields that presets set, the default is this one's.
USUAL: Mapping[str, Any] = {
    "micro_batch": 32,
    "batch_size": 64,
    "prefetch_factor": 2,
    "pin_memory": True,
    "persistent_workers": True,
    "precision": "auto",
    "activation_checkpointing": False,
    "cache": "mmap",
    "eval_every": 2,
    "save_every": 2,
}
_FAST = {**USUAL, "precision": "mixed", "eval_every": 5, "save_every": 5}
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "high-performance": {**_FAST, "micro_batch": 64, "cache": "ram"},
    "balanced": USUAL,
    "memory-limited": {**_FAST, "activation_checkpointing": True},
    "extreme": {
        **_FAST,
        "micro_batch": 128,
        "batch_size": 128,
        "prefetch_factor": 4,
        "cache": "ram",
        "eval_every": 10,
        "save_every": 10,
    },
}
# Of video, where a clip of a pass takes more: 8 frames of 224 pixels.
_OF_VIDEO: Mapping[str, Mapping[str, Any]] = {
    "high-performance": {"micro_batch": 32, "batch_size": 32, "model": "tsm", "cache": "mmap"},
    "balanced": {"micro_batch": 16, "batch_size": 32, "model": "tsm", "cache": "none"},
    "memory-limited": {"micro_batch": 4, "batch_size": 32, "model": "tsm", "cache": "none"},
    "extreme": {"micro_batch": 64, "batch_size": 64, "model": "tsm", "cache": "mmap"},
}
# Compiled on a GPU only: on CPUs it was slower more often than not, so there it is asked for by
# name (`--compile`).
COMPILES_ON_GPU = frozenset({"high-performance", "extreme"})
MOST_WORKERS = {"high-performance": 8, "balanced": 4, "memory-limited": 8, "extreme": 16}
# Memory for a clip of a pass: the hungriest of our models, stgcn, took 47 MB for 150 frames of 143
# points, forwards and backwards on a CPU (tcn_bilstm 9, transformer 13).
_CLIP_BYTES = 1 << 26


def preset_values(name: str, *, kind: str = "keypoints") -> Mapping[str, Any]:
    """Return the settings of a preset for a kind of data."""
    of_video = _OF_VIDEO[name]
    of_kinds = {"video": of_video, "two_streams": {**of_video, "model": "two_streams"}}
    return {**PRESETS[name], **of_kinds.get(kind, {})}


def loader_workers(preset: str, *, cores: int, ranks: int) -> int:
    """Return the loader processes of each rank: what the preset wants, within the rank's cores.

    A rank keeps one core for itself (`extreme` does not when it is alone); a rank that has one
    core only loads in a thread instead.
    """
    own = max(1, cores // max(1, ranks))
    spare = own if preset == "extreme" and ranks == 1 else own - 1
    return max(0, min(MOST_WORKERS[preset], spare))


def fitting_micro_batch(wanted: int, *, memory_bytes: int) -> int:
    """Return the largest half, quarter … of `wanted` clips that the memory can bear, at least 4."""
    while wanted > 4 and wanted * _CLIP_BYTES > memory_bytes:
        wanted //= 2
    return wanted


def _of_use_fp16(value: Any) -> Any:
    """Return the precision that `use_fp16` means."""
    if isinstance(value, bool):
        return "mixed" if value else "fp32"
    return value


class ModelSettings(Settings):
    """The network, its loss, and how its scores are read."""

    name: str = setting(
        "The network: tcn_bilstm does best on people it has not seen; stgcn is for few points "
        "(on 143 it computes eight times as much). Of video: tsm.",
        default="tcn_bilstm",
        choices="posemill.training.models:known_models",
        flat="model",
    )
    options: dict[str, Any] = setting(
        "The model's own settings, as name=value.", default={}, flat="model_options"
    )
    loss_options: dict[str, Any] = setting("The loss's own settings, as name=value.", default={})
    label_smoothing: float = amount(
        "Share of the target spread over all classes.", default=0.1, most=0.9
    )
    ctc_decoder: str = choice(
        "How glosses are read out of CTC scores.", ("greedy", "beam"), old=("decoder",)
    )
    beam_width: int = setting("Prefixes kept by the beam decoder.", default=10, least=1)


class MultigridOptions(Settings, command="train"):
    """What `multigrid_options` holds; see `posemill.Multigrid`."""

    epoch_factor: float = setting("Epochs for one of the constant schedule.", default=1.5, above=0)
    # By 4 at most, as trainings of a few minutes were tried elsewhere.
    most_lr_factor: float = setting("The learning rate grows up to so much.", default=4.0, least=1)
    short_cycle: bool = setting("Change the size of frames from step to step.", default=True)


class OptimisationSettings(Settings):
    """The steps: how many, how large, on how many clips."""

    epochs: int = setting("Passes over the training split.", default=60, least=1)
    max_steps: int = count("Stop after this many optimizer steps; 0: by epochs only.")
    batch_size: int = setting(
        "Clips in one optimizer step, over all processes.",
        default=USUAL["batch_size"],
        least=1,
        auto="by the preset: 64, 32 of video",
    )
    lr: float = amount("Learning rate at its highest.", default=0.002)
    optimizer: str = choice("How weights follow gradients.", ("adamw", "adam", "sgd"))
    weight_decay: float = amount(
        "Pull of the weights towards zero; not on biases and norms.", default=0.01
    )
    momentum: float = amount("Momentum of sgd.", default=0.9, most=1)
    scheduler: str = choice(
        "Course of the learning rate after warm-up.",
        ("constant", "linear", "cosine", "one-cycle", "step", "plateau"),
        default="cosine",
    )
    warmup_epochs: float = amount("Epochs of linear warm-up from 0.", default=1.0)
    final_lr: float = amount("Share of lr that linear, cosine and one-cycle end at.", most=1)
    step_epochs: list[float] = setting("Epochs where scheduler step lowers lr.", default=[])
    step_gamma: float = amount("Schedulers step and plateau: the factor.", default=0.2, most=1)
    plateau_patience: int = setting(
        "Scheduler plateau: lower lr after this many evaluations without a better score.",
        default=3,
        least=1,
    )
    multigrid: bool = switch(
        "Multigrid: short clips in large batches first, whole clips at the end; fewer steps."
    )
    multigrid_options: dict[str, Any] = setting(
        "Its own settings, as name=value: epoch_factor, most_lr_factor, short_cycle.", default={}
    )
    clip_grad_norm: float = amount(
        "Largest norm of the gradient; 0: no clipping.", default=1.0, old=("max_grad_norm",)
    )
    ema_decay: float = amount(
        "Moving average of the weights, used to evaluate; 0: off.", most=0.99999
    )
    patience: int = count("Stop after this many evaluations without a better one; 0: never.")
    seed: int = count("Seed of the weights, the order, the augmentation and dropout.")


class BatchWords(Settings):
    """The batch as other programs say it; it becomes `micro_batch` and `batch_size`."""

    ims_per_gpu: int = setting(
        "Clips of a pass on each GPU or process; batch_size is then so many times the passes and "
        "the processes.",
        default=0,
        least=1,
    )
    gradient_accumulation_steps: int = setting(
        "Passes of an optimizer step.", default=0, least=1, old=("accumulation_steps",)
    )


class SpeedSettings(Settings):
    """What changes the time a training takes and not its steps."""

    preset: str = choice(
        "Bundle of speed settings; none changes lr or epochs.", tuple(PRESETS), default="balanced"
    )
    parallel: str = choice(
        "One thread, several threads, several processes, or what a probe finds fastest.",
        ("auto", "single", "multi_thread", "multi_process"),
        old=("mode",),
    )
    processes: int = count("Ranks of multi_process; 0: one a GPU, or one a core.")
    threads: int = count("Threads of each process; 0: cores // processes.")
    device: str = setting("auto, cpu, cuda or cuda:N.", default="auto")
    precision: str = choice(
        "Number format of the forward pass; mixed (also --use-fp16): fp16 on a GPU, bf16 on a CPU "
        "that computes it.",
        ("auto", "fp32", "bf16", "fp16", "mixed"),
        default=USUAL["precision"],
        convert=_of_use_fp16,
        old=("use_fp16",),
    )
    micro_batch: int = setting(
        "Most clips in one forward pass; more are accumulated.",
        default=USUAL["micro_batch"],
        least=1,
        auto="by the preset: 32, 16 of video",
    )
    workers: int = setting(
        "Loader processes of each rank; -1: by the preset and the cores.",
        default=-1,
        least=-1,
        old=("num_workers",),
    )
    prefetch_factor: int = setting(
        "Batches that each loader keeps ready.", default=USUAL["prefetch_factor"], least=1
    )
    pin_memory: bool = setting("Page-locked batches (GPU only).", default=USUAL["pin_memory"])
    persistent_workers: bool = setting(
        "Keep loader processes between epochs.", default=USUAL["persistent_workers"]
    )
    compile: str = choice(
        "torch.compile the model; auto: on a GPU with a fast preset, never on a CPU.",
        ("auto", "on", "off"),
    )
    activation_checkpointing: bool = setting(
        "Compute activations twice to hold fewer of them.",
        default=USUAL["activation_checkpointing"],
    )
    channels_last: bool = switch("Keep the channels of pictures side by side in memory.")
    tune: str = choice(
        "Measure this machine first and train with what is faster: all, or speed, which leaves "
        "batch and precision alone.",
        ("none", "speed", "all"),
        bare="all",
    )
    tune_seconds: float = setting("Time that tune may take.", default=90.0, least=1)
    deterministic: bool = switch("Bit-equal reruns, at some cost.")
    cudnn_benchmark: bool = switch(
        "Let cuDNN time its kernels (off when deterministic).", default=True
    )


class OutputSettings(Settings):
    """Where a run is written, how often, and what."""

    out: str = setting("Folder of the run.", default="")
    resume: bool = switch("Continue the run in `out` where its last checkpoint is.")
    eval_every: int = setting(
        "Epochs between evaluations; the last epoch always has one.",
        default=USUAL["eval_every"],
        least=1,
    )
    eval_scales: list[float] = setting(
        "Evaluate videos at several sizes, as shares of video_size such as 0.75,1,1.25, and "
        "average what is said of them; empty: at one.",
        default=[],
    )
    save_every: int = setting(
        "Epochs between checkpoints; the last epoch always has one.",
        default=USUAL["save_every"],
        least=1,
    )
    save_every_steps: int = count("Also a checkpoint every so many steps; 0: no.")
    log_every: int = setting("Steps between lines of the log.", default=10, least=1)
    tensorboard: bool = setting(
        "Write TensorBoard logs where the package is installed.", default=True
    )
    figures: bool = setting(
        "Draw curves, confusion matrix and sample predictions at the end.", default=True
    )
    progress: bool = setting("Show a progress bar on stderr.", default=True)
