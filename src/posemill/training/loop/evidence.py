"""What a training measured about itself, as `timing.json` in its folder; nothing here needs torch.

It is written while the training runs, so that advice can be had of one that is killed as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from posemill.errors import RunError
from posemill.machine.limits import count_cores
from posemill.training.loop.step_watch import Wait
from posemill.training.loop.timing import PARTS
from posemill.training.record.live import read_object

DATA_SHARE = 0.10  # of the time: who waits for data so long can gain by changing that
TIMING_NAME = "timing.json"
VIDEO_FACTS = ("num_videos", "decoded_bytes", "frame_side", "free_bytes")


@dataclass(frozen=True)
class Evidence:
    """Where the time of a training went.

    Args:
        timing_seconds: By part, as `Clock.read` returns.
        cores: Cores that a process could use.
        ranks: Processes that trained.
        num_evals: Evaluations that ran.
        busy_share: Share of the time in which the GPU, or the cores, were at work; None if unknown.
        is_gpu: Which of them.
        padding_share: Share of the frames of all batches that only filled up; None if unknown.
        bf16_gain: Seconds of a step in fp32 by those in bf16, where both were measured.
        compile_seconds: Seconds of torch.compile before the second step.
        waits: Lines of a user's code that wait or print.
        num_videos: Videos that every epoch decoded anew; looked at where data is waited for.
        decoded_bytes: What their frames take in the size of the training.
        frame_side: That size, in pixels.
        free_bytes: On the disk of the cache.
    """

    timing_seconds: Mapping[str, float]
    cores: int
    ranks: int = 1
    num_evals: int = 0
    busy_share: float | None = None
    is_gpu: bool = False
    padding_share: float | None = None
    bf16_gain: float | None = None
    compile_seconds: float = 0.0
    waits: tuple[Wait, ...] = ()
    num_videos: int = 0
    decoded_bytes: int = 0
    frame_side: int = 0
    free_bytes: int = 0

    @property
    def seconds(self) -> float:
        """All that was measured."""
        return sum(self.timing_seconds.values())

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)


def read_evidence(folder: Path) -> Evidence:
    """Return what the training in a folder measured; one of an earlier version knows less.

    Raises:
        RunError: It has measured nothing yet, or the file is not what a training writes.
    """
    path = folder / TIMING_NAME
    values = read_object(path)
    if not values:
        path = folder / "summary.json"
        found = read_object(path)
        values = {name: found[name] for name in ("timing_seconds", "busy_share") if name in found}
        values["ranks"] = found.get("processes", 1)
    if not values.get("timing_seconds"):
        raise RunError(
            "{folder} has measured nothing yet: wait until it has taken some steps", folder=folder
        )
    try:
        seconds = {part: float(values["timing_seconds"].get(part, 0.0)) for part in PARTS}
        return Evidence(
            seconds,
            cores=int(values.get("cores", count_cores())),
            ranks=int(values.get("ranks", 1)),
            num_evals=int(values.get("num_evals", 0)),
            busy_share=_number(values, "busy_share"),
            is_gpu=values.get("is_gpu") is True,
            padding_share=_number(values, "padding_share"),
            bf16_gain=_number(values, "bf16_gain"),
            compile_seconds=_number(values, "compile_seconds") or 0.0,
            waits=tuple(Wait.from_json(each) for each in values.get("waits", ())),
            **{name: int(values.get(name, 0)) for name in VIDEO_FACTS},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunError(
            "{path} is not what posemill wrote: {error!r}", path=path, error=error
        ) from error


def _number(values: Mapping[str, Any], name: str) -> float | None:
    value = values.get(name)
    return None if value is None else float(value)
