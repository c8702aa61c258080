"""One setting after the other: each value takes turns with the best so far on this machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from posemill.errors import PosemillError, TrainingError
from posemill.machine.limits import count_cores, free_memory
from posemill.messages import Message
from posemill.training.bf16 import try_bf16
from posemill.training.config.run_settings import loader_workers
from posemill.training.config.train_config import TrainConfig
from posemill.training.loop.reporting import describe_videos
from posemill.training.precision import (
    choose_device,
    choose_precision,
    cpu_has_fast_bf16,
)
from posemill.training.tuning.arms import (
    Arm,
    MakeFor,
    PeakMemory,
    in_one_process,
    opened,
    run_processes,
)
from posemill.training.tuning.modes import PROCESS_SECONDS, can_divide
from posemill.training.video.video_clips import VideoClips

_CLEARLY = 1.03  # less is noise
_ROUNDS = 3
_LAST_ROUNDS = 5
# That compiling takes and measuring after it; a CPU's code is compiled by its C++ compiler.
_COMPILE_SECONDS = {"cuda": 30.0, "cpu": 120.0}
_LITTLE_WAIT = 0.03  # of the time: more loader processes cannot gain more
_PROCESS_ROUNDS = 2  # starting them takes seconds
_MEMORY_SHARE = 0.7  # of what is free
_LAST_SHARE = 0.25  # of the time, which the last comparison may take more
_NO_TIME = Message("not measured: no time left")
_LEAST_EPOCH_STEPS = 20  # a larger batch would leave too few


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Args:
        setting: What was tried, as `workers = 2`.
        samples_per_second: None where it was not measured.
        gain: Against the best so far, which it took turns with.
        note: `taken`, or why it was not measured.
    """

    setting: str
    samples_per_second: float | None = None
    gain: float | None = None
    note: str = ""


@dataclass
class Search:
    """Finds faster settings; `best` has those found so far.

    Args:
        make: Returns the workload of a configuration.
        best: Where to begin: as a training would run, all decided. Where it has several processes,
            settings are measured in one of them, and the last comparison with all.
        seconds: The time that all may take.
        keeps_maths: Leave batch and precision alone.
        fixed: Settings that stay, by flat name.
        report: Called with what is measured now.
    """

    make: MakeFor
    best: TrainConfig
    seconds: float
    keeps_maths: bool = False
    fixed: frozenset[str] = frozenset()
    report: Callable[[str], None] = lambda _: None
    rows: list[Row] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._end = time.monotonic() + self.seconds
        self.window = min(2.0, max(0.1, self.seconds / 60))
        self.device = choose_device(self.best.device)
        # For processes, which come last and gain most where the cores compute.
        may_try = self.device.type == "cpu" and not self._has_processes
        is_enough = may_try and self.seconds >= 2 * PROCESS_SECONDS
        self._kept_back = PROCESS_SECONDS if is_enough else 0.0

    @property
    def _has_processes(self) -> bool:
        return bool(self.best.parallel == "multi_process")

    @property
    def seconds_left(self) -> float:
        """Of the time that all may take."""
        return self._end - time.monotonic()

    def run(self) -> None:
        """Go through all settings, as far as the time allows."""
        steps = {
            "cache": self._caches,
            "threads": self._threads,
            "channels_last": self._layouts,
            "workers": self._workers,
            "prefetch_factor": self._prefetch,
            "micro_batch": self._micro_batches,
            "precision": self._precisions,
            "batch_size": self._batch_sizes,
            "compile": self._compile,
            "processes": self._processes,
        }
        self._say_what_fails()
        for setting, step in steps.items():
            if self.seconds_left > 0:
                step()
            else:
                self.rows.append(Row(setting, note=_NO_TIME))

    def try_values(self, *candidates: Mapping[str, Any], least_seconds: float = 0.0) -> None:
        """Measure settings in turns with the best so far, and keep what is clearly faster."""
        known = [
            values
            for values in candidates
            if not self.fixed & set(values)
            and any(getattr(self.best, name) != value for name, value in values.items())
        ]
        if not known:
            return
        # An arm is opened, warms up, and runs its rounds.
        needed = max(least_seconds, (len(known) + 1) * _ROUNDS * self.window / 2)
        if self.seconds_left - self._kept_back < needed:
            self._skip(_NO_TIME, *known)
            return
        try:
            speeds = self._take_turns([self.best, *(self.best.replace(**v) for v in known)])
        except (PosemillError, RuntimeError, OSError) as error:
            said = next(iter(str(error).splitlines()), type(error).__name__)
            self._skip(Message("cannot be used: {error}", error=said), *known)
            return
        before, *others = speeds
        self._choose(known, before, others)

    def _skip(self, note: Message, *candidates: Mapping[str, Any]) -> None:
        """Say why settings were not measured."""
        self.rows += [Row(_spell(values), note=note) for values in candidates]

    def _choose(
        self, known: Sequence[Mapping[str, Any]], before: float, speeds: Sequence[float]
    ) -> None:
        fastest = max(range(len(known)), key=lambda number: speeds[number])
        for number, (values, speed) in enumerate(zip(known, speeds, strict=True)):
            is_taken = number == fastest and speed > before * _CLEARLY
            self.rows.append(
                Row(_spell(values), speed, speed / before, "taken" if is_taken else "")
            )
        if speeds[fastest] > before * _CLEARLY:
            self._keep(known[fastest], speeds[fastest], before)

    def _keep(self, values: Mapping[str, Any], speed: float, before: float) -> None:
        old = {name: getattr(self.best, name) for name in values}
        self.best = self.best.replace(**values)
        why = Message(
            "measured {speed:.0f} samples/s, {before:.0f} with {settings}",
            speed=speed,
            before=before,
            settings=_spell(old),
        )
        self.reasons |= dict.fromkeys(values, why)

    def _take_turns(self, configs: Sequence[TrainConfig], rounds: int = _ROUNDS) -> list[float]:
        """Return the median samples a second of each, all in turns.

        What is half as fast as the first one, or slower, has one turn; so have all on a machine so
        busy that the time is up.
        """
        with opened(self.make, [in_one_process(config) for config in configs]) as arms:
            found = [[arm.run(self.window)] for arm in arms]
            for _ in range(rounds - 1):
                if self.seconds_left < -self.seconds * _LAST_SHARE:
                    break
                for arm, speeds in zip(arms, found, strict=True):
                    if speeds[0] > found[0][0] / 2:
                        speeds.append(arm.run(self.window))
        return [statistics.median(speeds) for speeds in found]

    def compare(self, base: TrainConfig) -> tuple[float, float]:
        """Return samples a second of where it began and of the best, once more in turns.

        Of several processes, whose rounds are few, the round with the smallest gain.
        """
        self.report(Message("the settings found, against those before"))
        if "multi_process" not in (base.parallel, self.best.parallel):
            before, after = self._take_turns([base, self.best], rounds=_LAST_ROUNDS)
            return before, after
        found: list[tuple[float, float]] = []
        while not found or (len(found) < _PROCESS_ROUNDS and self.seconds_left > 0):
            try:
                found.append((self._run_alone(base), self._run_alone(self.best)))
            except TrainingError as error:
                self.rows.append(
                    Row(
                        Message("the settings found"),
                        note=Message("not compared: {error}", error=error),
                    )
                )
                return 1.0, 1.0  # what was there stays
        return min(found, key=lambda pair: pair[1] / pair[0])

    def _run_alone(self, config: TrainConfig) -> float:
        if config.parallel == "multi_process":
            return run_processes(self.make, config, most_seconds=max(60.0, self.seconds))
        return self._take_turns([config], rounds=1)[0]

    def _caches(self) -> None:
        clips = self.make(self.best).train.video
        if clips is not None:
            self._frame_cache()
            self._decoders(clips)
        elif self.best.cache != "ram":
            self.report(Message("where samples wait"))
            self.try_values({"cache": "ram"})

    def _decoders(self, clips: VideoClips) -> None:
        """The quickest decoder whose frames are the same, as `posemill bench decode` finds it."""
        if not any(clip.kind == "video" for clip in clips.clips) or self.best.cache != "none":
            return
        self.report("decoders")
        chosen = self.make(self.best.replace(video_decoder="auto")).train.video
        if chosen is not None:
            self.try_values({"video_decoder": chosen.decoder})

    def _frame_cache(self) -> None:
        """Decoding once: its first epoch is slower, all others are not, and it takes disk."""
        values = {"cache": "mmap"}
        facts = describe_videos(self.make(self.best).train)
        if not facts or self.fixed & set(values):
            return
        self.report(Message("decoded frames"))
        needed, free = facts["decoded_bytes"] / 1e9, facts["free_bytes"] / 1e9
        if needed > free:
            said = Message(
                "not tried: about {needed:.1f} GB, and {free:.1f} GB are free",
                needed=needed,
                free=free,
            )
            self._skip(said, values)
            return
        try:
            first = self._fill(self.best.replace(**values))
            before, speed = self._take_turns([self.best, self.best.replace(**values)])
        except PosemillError as error:
            self._skip(Message("cannot be used: {error}", error=error), values)
            return
        # Over all epochs, the first of which decodes.
        epochs = self.best.epochs
        whole = epochs / (1 / first + (epochs - 1) / speed)
        self._choose([values], before, [whole])

    def _fill(self, config: TrainConfig) -> float:
        """Return samples a second while the cache is filled with the clips that are measured."""
        with opened(self.make, [in_one_process(config)]) as (arm,):
            return arm.run_once()

    def _threads(self) -> None:
        cores = count_cores()
        if self.device.type != "cpu" or cores < 2 or self._has_processes:
            return
        self.report("threads")
        if self.best.parallel == "multi_thread":
            own = loader_workers(self.best.preset, cores=cores, ranks=1)
            self.try_values({"parallel": "single", "threads": 1, "workers": own})
        else:
            self.try_values({"parallel": "multi_thread", "threads": cores, "workers": 0})

    def _workers(self) -> None:
        cores = count_cores()
        if self.device.type == "cpu" and self._has_processes:
            return  # they have all cores
        self.report(Message("loader processes"))
        waited = self._share_waited()
        if waited < _LITTLE_WAIT:
            said = Message("not measured: {waited:.0%} of the time waits for data", waited=waited)
            self.rows.append(Row("workers", note=said))
            return
        counts = sorted({0, 1, 2, cores - 1, cores} - {self.best.workers, -1})
        self.try_values(*({"workers": count} for count in counts if 0 <= count <= cores))

    def _share_waited(self) -> float:
        """Return the share of a training with the best settings that waits for data."""
        with opened(self.make, [in_one_process(self.best)]) as (arm,):
            arm.run(self.window)
            return arm.share_waited

    def _prefetch(self) -> None:
        if self.best.workers:
            self.report(Message("batches kept ready"))
            self.try_values({"prefetch_factor": 4})

    def _layouts(self) -> None:
        model = self.make(self.best).model
        if any(weights.ndim in (4, 5) for weights in model.parameters()):
            self.report(Message("channels last"))
            self.try_values({"channels_last": True})

    def _micro_batches(self) -> None:
        """Smaller passes where they are as fast, larger ones as long as they pay and fit."""
        self.report(Message("clips of a pass"))
        batch = in_one_process(self.best).batch_size
        micro = min(self.best.micro_batch, batch)
        sizes = [size for size in (micro // 2, micro * 2, micro * 4) if 4 <= size <= batch]
        fitting = [size for size in sizes if size < micro or self._fits("micro_batch", size)]
        self.try_values(*({"micro_batch": size} for size in fitting))

    def _batch_sizes(self) -> None:
        """The knee: as long as twice the clips of a step are clearly faster, and fit."""
        if self.keeps_maths or self.fixed & {"batch_size", "micro_batch"}:
            return
        self.report(Message("clips of a step"))
        clips = len(self.make(self.best).train)
        while True:
            size = self.best.batch_size * 2
            if clips < size * _LEAST_EPOCH_STEPS or not self._fits("batch_size", size):
                return
            before = self.best.batch_size
            values = {"batch_size": size, "micro_batch": min(size, self.best.micro_batch * 2)}
            if self.make(self.best).train.video is not None and self.best.cache != "none":
                self._fill(self.best.replace(**values))  # of more clips, some not yet decoded
            self.try_values(values)
            if self.best.batch_size == before:
                return

    def _precisions(self) -> None:
        if self.keeps_maths or self.best.deterministic:
            return
        self.report(Message("number formats"))
        usual = choose_precision("auto", self.device).name  # never one that is emulated
        self.try_values(*({"precision": name} for name in {"fp32", usual}))

    def _say_what_fails(self) -> None:
        """Say why bf16 is not measured, or how, where it fails on this CPU as it is."""
        is_open = "precision" not in self.fixed and not self.best.deterministic
        if is_open and self.device.type == "cpu" and cpu_has_fast_bf16():
            note = try_bf16().describe()
            self.rows += [Row("precision bf16", note=note)] if note else []

    def _compile(self) -> None:
        self.report("torch.compile")
        self.try_values({"compile": "on"}, least_seconds=_COMPILE_SECONDS[self.device.type])

    def _processes(self) -> None:
        """Several processes: started anew for each measurement, so once, and clearly faster."""
        cores = count_cores()
        values = {"parallel": "multi_process", "processes": cores, "threads": 1, "workers": 0}
        if self.device.type != "cpu" or cores < 2 or self.fixed & set(values):
            return
        if self._has_processes:
            return
        if not can_divide(self.make(self.best)):
            return
        if self.seconds_left < PROCESS_SECONDS - 5:
            self._skip(_NO_TIME, values)
            return
        self.report("processes")
        before = self._take_turns([self.best], rounds=2)[0]
        try:
            config = self.best.replace(**values)
            speed = run_processes(self.make, config, most_seconds=max(self.seconds_left, 1.0))
        except PosemillError as error:
            self._skip(Message("cannot be used: {error}", error=error), values)
            return
        self._choose([values], before * 1.05, [speed])

    def _fits(self, name: str, size: int) -> bool:
        """Return whether so many clips fit, by how much a pass of today's size takes."""
        micro = min(self.best.micro_batch, self.best.batch_size)
        passes = size if name == "micro_batch" else min(size, self.best.micro_batch * 2)
        config = in_one_process(self.best).replace(workers=0, batch_size=micro)
        arm = Arm(self.make(config), config)
        try:
            with PeakMemory(self.device) as memory:
                arm.run_steps(1)
        finally:
            arm.close()
        needed = memory.grown * passes / micro
        free = free_memory()
        if self.device.type == "cuda":
            free = torch.cuda.mem_get_info(self.device)[0]
        if needed <= free * _MEMORY_SHARE:
            return True
        said = Message(
            "not tried: about {needed:.0f} MB, and {free:.0f} MB are free",
            needed=needed / 1e6,
            free=free / 1e6,
        )
        self._skip(said, {name: size})
        return False


def _spell(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
