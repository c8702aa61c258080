"""From what a training measured to the settings worth changing: evidence, change, expected gain."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from posemill.messages import Message, Option
from posemill.training.config.resolve import read_config
from posemill.training.config.train_config import TrainConfig
from posemill.training.loop.timing import DATA_SHARE, Evidence, read_evidence, shares
from posemill.training.models import input_of
from posemill.training.record.run_folder import RunFolder

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
    """A change of a setting, what was seen, and what it should bring."""

    setting: str  # empty: the user's own code
    change: Message
    evidence: Message
    gain: float | None  # how many times as fast the training can become at most, where it is known

    @property
    def sentence(self) -> Message:
        """All of it in a sentence."""
        template = "{evidence}: try {change} (up to {gain:.2f}x)"
        if self.gain is None:
            template = "{evidence}: try {change} (gain not measured)"
        return Message(template, **vars(self))

    def __str__(self) -> str:
        return str(self.sentence)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {**asdict(self), "text": self.sentence}


def advise(evidence: Evidence, config: TrainConfig, *, is_asked: bool = False) -> list[Advice]:
    """Return what to change, the largest gain first; nothing if all is well."""
    if evidence.seconds < LEAST_SECONDS and not is_asked:
        return []
    kept = [
        *_on_loaders(evidence, config),
        *_on_decoding(evidence, config),
        *_on_parts(evidence, config),
        *_on_steps(evidence, config),
    ]
    # What leaves the device idle is named above; where nothing is, there is too little to do.
    if not any(advice.gain for advice in kept):
        kept += _on_idle(evidence, config)
    return sorted(kept, key=lambda advice: -(advice.gain or 0.0))


def _gain(saved: float) -> float:
    """How many times as fast it is without this share of the time."""
    return 1 / (1 - min(saved, 0.99))


def _set(setting: str, value: object, evidence: Message, gain: float | None) -> Advice:
    return Advice(setting, Message("{option}", option=Option(setting, value)), evidence, gain)


def _on_loaders(evidence: Evidence, config: TrainConfig) -> Iterator[Advice]:
    """What loads the data: too slowly, or with more processes than there are cores."""
    share = shares(evidence.timing_seconds)["data"]
    own_cores = evidence.cores // max(1, evidence.ranks)
    workers, spare, gain = config.workers, own_cores - 1, _gain(share)
    loaders = Message("no loader process")
    if workers:
        loaders = Message("{workers:loader process|loader processes}", workers=workers)
    if share < DATA_SHARE:
        if workers > max(1, own_cores):
            template = "{loaders} share {num_cores:core|cores} with the training"
            seen = Message(template, loaders=loaders, num_cores=max(1, own_cores))
            yield _set("workers", max(1, spare), seen, None)
        return
    template = "{share:.0%} of the time waits for data with {loaders} on {num_cores:core|cores}"
    seen = Message(template, share=share, loaders=loaders, num_cores=own_cores)
    if config.cache == "hdf5":
        seen = Message("{evidence} and cache hdf5", evidence=seen)
        yield Advice("cache", Message("{--cache:mmap} (or ram)"), seen, gain)
    elif workers > own_cores:
        yield _set("workers", max(1, spare), seen, gain)
    elif workers < spare:
        yield _set("workers", min(spare, max(2, workers * 2)), seen, gain)
    elif config.cache == "mmap" and input_of(config.model.name) != "video":
        yield _set("cache", "ram", seen, gain)
    elif workers and config.prefetch_factor < 4:
        yield _set("prefetch_factor", config.prefetch_factor * 2, seen, gain)


def _on_decoding(evidence: Evidence, config: TrainConfig) -> Iterator[Advice]:
    share = shares(evidence.timing_seconds)["data"]
    if share < DATA_SHARE or not evidence.num_videos:
        return
    seen = Message(
        "{share:.0%} of the time waits for {num_videos:video|videos} that every epoch decodes anew",
        share=share,
        num_videos=evidence.num_videos,
    )
    data = shlex.quote(config.data.path or "VIDEOS")
    command = f"posemill frames {data} --out frames --resize {evidence.frame_side} --short-side"
    needed, free = evidence.decoded_bytes / 1e9, evidence.free_bytes / 1e9
    setting = "cache"
    template = "{--cache:mmap} ({needed:.1f} GB of {free:.1f} GB free), or once: {command} --pack"
    if needed > free:
        setting = "data"
        template = (
            "{command} (JPEG; decoded they would take {needed:.1f} GB, and {free:.1f} GB are free)"
        )
    change = Message(template, command=command, needed=needed, free=free)
    yield Advice(setting, change, seen, _gain(share))


def _on_parts(evidence: Evidence, config: TrainConfig) -> Iterator[Advice]:
    """What is done less often, or in another way, where it takes a large share."""
    part = shares(evidence.timing_seconds)
    if (share := part["transfer"]) >= _TRANSFER_SHARE and not config.pin_memory:
        seen = Message("{share:.0%} goes into copies to the GPU", share=share)
        yield _set("pin_memory", True, seen, _gain(share))
    if (share := part["optimizer"]) >= _OPTIMIZER_SHARE and evidence.ranks == 1:
        template = "{share:.0%} goes into the optimizer: the batch is small for this model"
        seen = Message(template, share=share)
        yield _set("batch_size", config.batch_size * 2, seen, _gain(share / 2))
    elif share >= _OPTIMIZER_SHARE:
        template = "{share:.0%} goes into the optimizer and the sum of gradients over {ranks} ranks"
        seen = Message(template, share=share, ranks=evidence.ranks)
        template = "{--batch-size:{size}} (fewer sums), or {--parallel:multi_thread}"
        change = Message(template, size=config.batch_size * 2)
        yield Advice("batch_size", change, seen, _gain(share / 2))
    if (share := part["evaluation"]) >= _SIDE_SHARE and evidence.num_evals >= 2:
        template = "{share:.0%} goes into {num_evaluations:evaluation|evaluations}"
        seen = Message(template, share=share, num_evaluations=evidence.num_evals)
        yield _set("eval_every", config.eval_every * 2, seen, _gain(share / 2))
    if (share := part["checkpoint"]) >= _SIDE_SHARE:
        setting = "save_every_steps" if config.save_every_steps else "save_every"
        seen = Message("{share:.0%} goes into checkpoints", share=share)
        yield _set(setting, getattr(config, setting) * 2, seen, _gain(share / 2))


def _on_steps(evidence: Evidence, config: TrainConfig) -> Iterator[Advice]:
    """What makes the steps themselves shorter."""
    part, padding = shares(evidence.timing_seconds), evidence.padding_share or 0.0
    if padding >= _PADDING_SHARE:
        gain = _gain(padding * (part["forward"] + part["backward"]))
        template = "{share:.0%} of the frames in batches only fill up shorter clips"
        seen = Message(template, share=padding)
        if not config.bucket_by_length:
            yield _set("bucket_by_length", True, seen, gain)
        elif config.micro_batch > 1:
            yield _set("micro_batch", config.micro_batch // 2, seen, gain)
    if evidence.bf16_gain is not None and evidence.bf16_gain >= _LEAST_GAIN:
        steps = part["forward"] + part["backward"] + part["optimizer"]
        template = "a step took {ratio:.2f} times as long in fp32 as in bf16"
        seen = Message(template, ratio=evidence.bf16_gain)
        yield _set("precision", "bf16", seen, _gain(steps * (1 - 1 / evidence.bf16_gain)))
    share = evidence.compile_seconds / (evidence.seconds or 1.0)
    if share >= _COMPILE_SHARE:
        template = "{share:.0%} of the time, {seconds:.0f} s, went into torch.compile"
        seen = Message(template, share=share, seconds=evidence.compile_seconds)
        yield Advice("compile", Message("{--compile:off} for so few steps"), seen, _gain(share))
    steps = 1 - part["evaluation"] - part["checkpoint"]
    for wait in evidence.waits:
        seen = Message("{file}:{line} calls {call}, {share:.0%} of the time of steps", **vars(wait))
        yield Advice("", Message("it once in 100 steps"), seen, _gain(wait.share * steps))


def _on_idle(evidence: Evidence, config: TrainConfig) -> Iterator[Advice]:
    busy, cores = evidence.busy_share, evidence.cores
    if busy is None or busy >= _BUSY_SHARE:
        return
    what = Message("the {num_cores:core was|cores were}", num_cores=cores)
    if evidence.is_gpu:
        what = Message("the GPU was")
    template = "{what} busy for {busy:.0%} of the time, less than {least:.0%}"
    seen = Message(template, what=what, busy=busy, least=_BUSY_SHARE)
    gain = 1 / max(busy, 0.01)
    if not evidence.is_gpu and config.parallel == "single" and cores > 1:
        yield _set("parallel", "auto", seen, gain)
    elif config.micro_batch < config.batch_size:
        yield _set("micro_batch", config.micro_batch * 2, seen, gain)
    else:
        yield _set("batch_size", config.batch_size * 2, seen, gain)


def advise_run(folder: Path) -> list[Advice]:
    """Return what to change for the next training like the one in a folder, finished or not.

    `RunError` where it is not the folder of a training, or one that has measured nothing yet.
    """
    run = RunFolder(folder)
    run.expect()
    config = TrainConfig(**read_config(run.config_path))
    return advise(read_evidence(folder), config, is_asked=True)
