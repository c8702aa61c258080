"""The settings of an extraction: each is a flag of `posemill extract`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posemill.errors import ConfigError

MODES = ("auto", "image", "video")
KEEP = {543: "holistic-543", 143: "holistic-143"}


@dataclass(frozen=True)
class ExtractConfig:
    """What to extract, into which folder, how, and with how many workers.

    Args:
        source: A frame tree, a folder of videos or pictures, one file, a list, a known dataset.
        out: The run's folder; the same settings with the same folder continue.
        layout: How the source is laid out; `auto` finds out.
        splits: Only these; None for all.
        engine: A key of `posemill.estimators.ESTIMATORS`.
        engine_options: The engine's own options, by name.
        mode: `video` tracks from frame to frame, `image` treats each alone, `auto` tracks the
            frames of a clip and treats loose pictures alone.
        keep: How many keypoints to store: 543, or 143 for the usual model input.
        decoder: A key of `posemill.decoders.DECODERS`.
        split_long_seconds: Cut longer videos into pieces of about this length that know nothing
            of each other; None never cuts.
        workers: How many; None for one per core, or what the GPUs ask for.
        executor: A key of `posemill.executors.EXECUTORS`.
        num_gpus: Workers are bound to `cuda:0` … in turn; 0 for the CPU.
        num_workers_per_gpu: Workers on each GPU.
        batch_size: Frames per call, of one clip or of several side by side; None for 4 on a CPU
            (the networks stay in its caches) and 16 on a GPU.
        task_frames: Short clips are grouped up to about as many frames, and longer ones are
            committed in pieces of as many.
        timeout_seconds: A worker without progress for longer is replaced.
        memory_limit_mb: Of one worker; one that grows past it is replaced. None for its share of
            80 % of the machine's memory, at least 1 GB; 0 for no limit.
        max_tries: A frame that takes its worker down as often is given up.
        retry_failed: Try again what failed before; without it failed frames stay failed.
        temp_dir: The workers' folder for temporary files; None for the system's.
    """

    source: Path
    out: Path
    layout: str = "auto"
    splits: tuple[str, ...] | None = None
    engine: str = "holistic"
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    mode: str = "auto"
    keep: int = 543
    decoder: str = "pyav"
    split_long_seconds: float | None = None
    workers: int | None = None
    executor: str = "processes"
    num_gpus: int = 0
    num_workers_per_gpu: int = 1
    batch_size: int | None = None
    task_frames: int = 512
    timeout_seconds: float = 120.0
    memory_limit_mb: int | None = None
    max_tries: int = 3
    retry_failed: bool = False
    temp_dir: Path | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ConfigError(f"mode: expected one of {', '.join(MODES)}, got {self.mode!r}")
        if self.keep not in KEEP:
            raise ConfigError(f"keep: expected 543 or 143 keypoints, got {self.keep}")
        low = {"workers": 1, "num_gpus": 0, "num_workers_per_gpu": 1, "batch_size": 1,
               "task_frames": 1, "max_tries": 1, "memory_limit_mb": 0}  # fmt: skip
        for name, least in low.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise ConfigError(f"{name}: expected at least {least}, got {value}")
        for name in ("split_long_seconds", "timeout_seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"{name}: expected more than 0, got {value}")
        if self.workers is not None and self.num_gpus:
            raise ConfigError(
                "workers and num_gpus exclude each other: with GPUs the number of workers is "
                "num_gpus x num_workers_per_gpu"
            )

    @property
    def skeleton_name(self) -> str:
        """The layout of the keypoints that are kept."""
        return KEEP[self.keep]

    def devices(self) -> list[str]:
        """Return one device per worker that shares it, in turn: worker i has `devices[i % n]`."""
        return [f"cuda:{index}" for index in range(self.num_gpus)] or ["cpu"]

    def deciding_options(self) -> dict[str, Any]:
        """Return the options that decide the result: they cannot change while a run goes on."""
        return {
            "mode": self.mode,
            "keep": self.keep,
            "decoder": self.decoder,
            "split_long_seconds": self.split_long_seconds,
            "splits": None if self.splits is None else list(self.splits),
        }
