"""From what a training measured to the settings worth changing: evidence, change, expected gain."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posemill.errors import RunError
from posemill.files import check_own_parts
from posemill.terminal import counted
from posemill.training.config.resolve import read_config
from posemill.training.config.train_config import TrainConfig
from posemill.training.loop.evidence import DATA_SHARE, Evidence, read_evidence
from posemill.training.loop.step_watch import Wait
from posemill.training.loop.timing import shares
from posemill.training.models import input_of
from posemill.training.record.live import FILES, FOLDERS, read_object

LEAST_SECONDS = 60.0  # of a shorter training nothing is said unless it is asked for
_TRANSFER_SHARE = 0.10
_OPTIMIZER_SHARE = 0.25
_SIDE_SHARE = 0.05  # evaluation or checkpoint
_BUSY_SHARE = 0.80
_PADDING_SHARE = 0.30
_LEAST_GAIN = 1.05  # of another number format
_COMPILE_SHARE = 0.20  # a longer training would have more of the faster steps


@dataclass(frozen=True)
class Advice:
    """A change, what was seen, and what it should bring.

    Args:
        setting: Field of `TrainConfig`; empty where it is the user's own code.
        change: The command-line words, or what else to try.
        evidence: The measurement behind it.
        gain: How many times as fast the training can become at most; None if it is not known.
    """

    setting: str
    change: str
    evidence: str
    gain: float | None

    def __str__(self) -> str:
        said = f"{self.evidence}: try {self.change}"
        return f"{said} (up to {self.gain:.2f}x)" if self.gain else f"{said} (gain not measured)"

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "setting": self.setting,
            "change": self.change,
            "evidence": self.evidence,
            "gain": self.gain,
            "text": str(self),
        }


def advise(evidence: Evidence, config: TrainConfig, *, is_asked: bool = False) -> list[Advice]:
    """Return what to change, the largest gain first; nothing if all is well.

    Args:
        evidence: What was measured.
        config: The settings in use, `workers` resolved.
        is_asked: Also of a training of less than a minute.
    """
    if evidence.seconds < LEAST_SECONDS and not is_asked:
        return []
    kept = [
        *_on_data(evidence, config),
        *_on_decoding(evidence, config),
        *_on_workers(evidence, config),
        *_on_parts(evidence, config),
        *_on_padding(evidence, config),
        *_on_precision(evidence),
        *_on_compile(evidence),
        *(_on_wait(wait, evidence) for wait in evidence.waits),
    ]
    # What leaves the device idle is named above; where nothing is, there is too little to do.
    if not any(advice.gain for advice in kept):
        kept += _on_idle(evidence, config)
    return sorted(kept, key=lambda advice: -(advice.gain or 0.0))


def _gain(saved: float) -> float:
    """How many times as fast it is without this share of the time."""
    return 1 / (1 - min(saved, 0.99))


def _on_data(evidence: Evidence, config: TrainConfig) -> Iterator[Advice]:
    share = shares(evidence.timing_seconds)["data"]
    if share < DATA_SHARE:
        return
    own_cores = _own_cores(evidence)
    workers, spare, gain = config.workers, own_cores - 1, _gain(share)
    seen = (
        f"{share:.0%} of the time waits for data with {_loaders(workers)} on "
        f"{counted(own_cores, 'cores')}"
    )
    if config.cache == "hdf5":
        yield Advice("cache", "--cache mmap (or ram)", f"{seen} and cache hdf5", gain)
    elif workers > own_cores:
        yield Advice("workers", f"--workers {max(1, spare)}", seen, gain)
    elif workers < spare:
        more = min(spare, max(2, workers * 2))
        yield Advice("workers", f"--workers {more}", seen, gain)
    elif config.cache == "mmap" and input_of(config.model.name) != "video":
        yield Advice("cache", "--cache ram", seen, gain)
    elif workers and config.prefetch_factor < 4:
        change = f"--prefetch-factor {config.prefetch_factor * 2}"
        yield Advice("prefetch_factor", change, seen, gain)


def _on_decoding(evidence: Evidence, config: TrainConfig) -> Iterator[Advice]:
    share = shares(evidence.timing_seconds)["data"]
    if share < DATA_SHARE or not evidence.num_videos:
        return
    count, side = counted(evidence.num_videos, "videos"), evidence.frame_side
    seen = f"{share:.0%} of the time waits for {count} that every epoch decodes anew"
    needed, free = f"{evidence.decoded_bytes / 1e9:.1f} GB", f"{evidence.free_bytes / 1e9:.1f} GB"
    data = shlex.quote(config.data.path or "VIDEOS")
    frames = f"posemill frames {data} --out frames --size {side} --short-side"
    if evidence.decoded_bytes > evidence.free_bytes:
        change = f"{frames} (JPEG; decoded they would take {needed}, and {free} are free)"
        yield Advice("data", change, seen, _gain(share))
        return
    change = f"--cache mmap ({needed} of {free} free), or once: {frames} --pack"
    yield Advice("cache", change, seen, _gain(share))


def _own_cores(evidence: Evidence) -> int:
    return evidence.cores // max(1, evidence.ranks)


def _loaders(workers: int) -> str:
    few = "1 loader process" if workers else "no loader process"
    return f"{workers} loader processes" if workers > 1 else few


def _on_workers(evidence: Evidence, config: TrainConfig) -> Iterator[Advice]:
    own_cores = max(1, _own_cores(evidence))
    if config.workers <= own_cores:
        return
    if shares(evidence.timing_seconds)["data"] >= DATA_SHARE:
        return  # said with what it waits for
    seen = f"{_loaders(config.workers)} share {counted(own_cores, 'cores')} with the training"
    yield Advice("workers", f"--workers {max(1, own_cores - 1)}", seen, None)


def _on_parts(evidence: Evidence, config: TrainConfig) -> Iterator[Advice]:
    """What is done less often, or in another way, where it takes a large share."""
    share = shares(evidence.timing_seconds)
    if share["transfer"] >= _TRANSFER_SHARE and not config.pin_memory:
        seen = f"{share['transfer']:.0%} goes into copies to the GPU"
        yield Advice("pin_memory", "--pin-memory", seen, _gain(share["transfer"]))
    if share["optimizer"] >= _OPTIMIZER_SHARE:
        larger, percent, ranks = config.batch_size * 2, f"{share['optimizer']:.0%}", evidence.ranks
        seen = f"{percent} goes into the optimizer: the batch is small for this model"
        change = f"--batch-size {larger}"
        if ranks > 1:
            seen = f"{percent} goes into the optimizer and the sum of gradients over {ranks} ranks"
            change = f"--batch-size {larger} (fewer sums), or --parallel multi_thread"
        yield Advice("batch_size", change, seen, _gain(share["optimizer"] / 2))
    if share["evaluation"] >= _SIDE_SHARE and evidence.num_evals >= 2:
        seen = f"{share['evaluation']:.0%} goes into {counted(evidence.num_evals, 'evaluations')}"
        change = f"--eval-every {config.eval_every * 2}"
        yield Advice("eval_every", change, seen, _gain(share["evaluation"] / 2))
    if share["checkpoint"] >= _SIDE_SHARE:
        setting = "save_every_steps" if config.save_every_steps else "save_every"
        change = f"--{setting.replace('_', '-')} {getattr(config, setting) * 2}"
        seen = f"{share['checkpoint']:.0%} goes into checkpoints"
        yield Advice(setting, change, seen, _gain(share["checkpoint"] / 2))


def _on_padding(evidence: Evidence, config: TrainConfig) -> Iterator[Advice]:
    padding = evidence.padding_share or 0.0
    if padding < _PADDING_SHARE:
        return
    share = shares(evidence.timing_seconds)
    gain = _gain(padding * (share["forward"] + share["backward"]))
    seen = f"{padding:.0%} of the frames in batches only fill up shorter clips"
    if not config.bucket_by_length:
        yield Advice("bucket_by_length", "--bucket-by-length", seen, gain)
    elif config.micro_batch > 1:
        change = f"--micro-batch {config.micro_batch // 2}"
        yield Advice("micro_batch", change, seen, gain)


def _on_precision(evidence: Evidence) -> Iterator[Advice]:
    if evidence.bf16_gain is None or evidence.bf16_gain < _LEAST_GAIN:
        return
    share = shares(evidence.timing_seconds)
    steps = share["forward"] + share["backward"] + share["optimizer"]
    seen = f"a step took {evidence.bf16_gain:.2f} times as long in fp32 as in bf16"
    gain = _gain(steps * (1 - 1 / evidence.bf16_gain))
    yield Advice("precision", "--precision bf16", seen, gain)


def _on_compile(evidence: Evidence) -> Iterator[Advice]:
    share = evidence.compile_seconds / (evidence.seconds or 1.0)
    if share < _COMPILE_SHARE:
        return
    seen = f"{share:.0%} of the time, {evidence.compile_seconds:.0f} s, went into torch.compile"
    yield Advice("compile", "--compile off for so few steps", seen, _gain(share))


def _on_wait(wait: Wait, evidence: Evidence) -> Advice:
    share = shares(evidence.timing_seconds)
    steps = 1 - share["evaluation"] - share["checkpoint"]
    where = f"{wait.file}:{wait.line} calls {wait.call}"
    seen = f"{where}, {wait.share:.0%} of the time of steps"
    if not wait.share:  # quick on a CPU, whose work is done when it is asked for
        seen = f"{where} in every step, each of which a GPU would wait for"
    change = "it once in 100 steps"
    return Advice("", change, seen, _gain(wait.share * steps) if wait.share else None)


def _on_idle(evidence: Evidence, config: TrainConfig) -> Iterator[Advice]:
    busy, cores = evidence.busy_share, evidence.cores
    if busy is None or busy >= _BUSY_SHARE:
        return
    what = "the GPU was" if evidence.is_gpu else f"the {counted(cores, 'cores were')}"
    seen = f"{what} busy for {busy:.0%} of the time, less than {_BUSY_SHARE:.0%}"
    gain = 1 / max(busy, 0.01)
    if not evidence.is_gpu and config.parallel == "single" and cores > 1:
        yield Advice("parallel", "--parallel auto", seen, gain)
    elif config.micro_batch < config.batch_size:
        yield Advice("micro_batch", f"--micro-batch {config.micro_batch * 2}", seen, gain)
    else:
        yield Advice("batch_size", f"--batch-size {config.batch_size * 2}", seen, gain)


def advise_run(folder: Path) -> list[Advice]:
    """Return what to change for the next training like the one in a folder, finished or not.

    Raises:
        RunError: It is not the folder of a training, or one that has measured nothing yet.
    """
    check_own_parts(folder, FILES, FOLDERS)
    if not read_object(folder / "run.json"):
        raise RunError(f"{folder} is not the folder of a training (no run.json)")
    config = TrainConfig(**read_config(folder / "config.toml"))
    return advise(read_evidence(folder), config, is_asked=True)
