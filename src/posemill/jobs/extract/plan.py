"""From clips to units, from units to tasks of even cost, the longest first; and who does them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from posemill.config import ExtractConfig, FramesConfig, JobConfig
from posemill.decoders import open_video
from posemill.decoders.sampling import fewer_frames
from posemill.errors import ConfigError, DecodeError
from posemill.estimators.runtimes.devices import list_gpus
from posemill.machine.limits import count_cores, memory_limit
from posemill.messages import Message, join
from posemill.places import uri_of
from posemill.provenance import describe_unused
from posemill.records import Clip
from posemill.runs.events import PlannedUnit
from posemill.sources import ClipList
from posemill.sources.tracking import Tracking

UNKNOWN_COST = 2000  # frames, for a video that does not say its length: likely a task of its own
_TASKS_PER_WORKER = 8  # at least, as far as there are clips: the end has no long tail
_SMALLEST_TASK = 8  # frames; fewer where a worker would have none
_PICTURE_UNITS = 128  # of a folder, at most; tasks are made of them
# What a worker needs with room to spare: 190 MB with the engine and four frames of 1920 x 1080.
_LEAST_MEMORY = 512 << 20
_SHARE_OF_MEMORY = 0.8


def mode_of(clip: Clip, mode: str, tracking: Tracking | None = None) -> Literal["image", "video"]:
    """Return how a clip's frames are treated.

    In `auto` as was decided by evidence; where nobody looked, loose pictures alone, others tracked.
    """
    is_alone = mode == "image"
    if mode == "auto":
        key = clip.split, clip.clip_id
        is_alone = clip.kind == "pictures" if tracking is None else key in tracking.alone
    return "image" if is_alone else "video"


def describe_mode(config: ExtractConfig, mode: str, clips: ClipList) -> Message:
    """Return in words how the frames are treated, and why; `mode` is as `settled` gives it."""
    if config.mode != "auto":
        return Message("mode {mode}, as {--mode} says", mode=mode)
    if mode != "auto":
        return Message("mode {mode}: engine {engine} has no other", mode=mode, engine=config.engine)
    if clips.tracking is not None:
        return clips.tracking.describe()
    if clips.layout == "phoenix":
        return Message(
            "mode video: each clip of PHOENIX is the frames of one video, so they are tracked; "
            "{--mode:image} treats each frame alone, as MediaPipe does with single pictures"
        )
    if all(mode_of(clip, mode) == "image" for clip in clips):
        return Message("mode image: pictures stand alone; {--mode:video} tracks them")
    return Message(
        "mode video: clips are tracked from frame to frame; {--mode:image} treats each alone"
    )


def unused_settings(config: JobConfig, clips: Iterable[Clip]) -> list[str]:
    """Return a sentence for each setting that was given and has no effect on these clips."""
    reasons: dict[str, str] = {}
    if isinstance(config, FramesConfig) and config.pack:
        reasons |= dict.fromkeys(("format", "quality"), Message("a pack holds plain bytes"))
    elif isinstance(config, FramesConfig) and config.format == "png":
        reasons["quality"] = Message("png loses nothing")
    if not config.num_gpus:
        reasons["num_workers_per_gpu"] = Message(
            "{--num-gpus} is 0; {--workers} counts workers on the CPU"
        )
    if config.executor in ("serial", "threads"):
        in_process = Message("executor {name} works in this process", name=config.executor)
        reasons |= dict.fromkeys(("timeout_seconds", "memory_limit_mb", "temp_dir"), in_process)
    if not any(clip.kind == "video" for clip in clips):
        no_videos = Message("there are no videos")
        reasons |= dict.fromkeys(("decoder", "split_long_seconds"), no_videos)
    fields = config.all_fields()
    return describe_unused(config, {name: reasons[name] for name in reasons if name in fields})


def plan_units(
    clips: Iterable[Clip], config: ExtractConfig, *, tracking: Tracking | None = None
) -> Iterator[PlannedUnit]:
    """Yield the units of all clips, in their order; clips are numbered from 1.

    A clip in video mode is one chain. Pictures in image mode are cut into ranges. A video is read
    from its start whatever part of it is wanted, so it is cut only by `split_long_seconds`. The
    lengths of the clips are those of the frames that are taken.
    """
    sampling = fewer_frames(config.fps, config.stride)
    for clip_no, clip in enumerate(clips, start=1):
        is_chain = mode_of(clip, config.mode, tracking) == "video"
        is_video = clip.kind == "video"
        cost = clip.num_frames if clip.num_frames is not None else UNKNOWN_COST
        step = 0
        if is_video and config.split_long_seconds is not None:
            if (uri := uri_of(clip.path)) is not None:
                raise ConfigError(
                    "{--split-long} needs the lengths of videos before they are read, and {uri} is "
                    "not on this machine; leave it out, or copy the videos to a disk",
                    uri=uri,
                )
            fps = None
            if clip.num_frames:
                with suppress(DecodeError), open_video(clip.path, decoder=config.decoder) as video:
                    fps = video.fps
            if fps:  # else its worker says what is wrong with it
                fps = fps if sampling is None else sampling.rate_of(fps) or fps
                step = max(1, round(config.split_long_seconds * fps))
        elif not is_video and not is_chain and clip.num_frames is not None:
            step = min(config.task_frames, max(_SMALLEST_TASK, clip.num_frames // _PICTURE_UNITS))
        starts = list(range(0, cost, step)) if 0 < step < cost else [0]
        for start, stop in zip(starts, [*starts[1:], None], strict=True):
            length_in_frames = (cost if stop is None else stop) - start
            yield PlannedUnit(clip_no, start, stop, is_chain, is_video, length_in_frames)


def group_units(
    costs: Sequence[tuple[int, int]], *, task_frames: int, num_workers: int
) -> list[list[int]]:
    """Return groups of unit numbers of about even cost, the most expensive first.

    Neighbours stay together: a shard holds clips that are read one after the other. Small jobs are
    cut finer than `task_frames`, so that all workers have something to do until the end.
    """
    total = sum(cost for _, cost in costs)
    share = total // (_TASKS_PER_WORKER * num_workers)
    least = min(_SMALLEST_TASK, -(-total // num_workers))
    target = min(task_frames, max(least, share))
    groups: list[list[int]] = []
    sizes: list[int] = []
    for unit_no, cost in costs:
        if groups and sizes[-1] + cost <= target:
            groups[-1].append(unit_no)
            sizes[-1] += cost
        else:
            groups.append([unit_no])
            sizes.append(cost)
    return [groups[index] for index in sorted(range(len(groups)), key=lambda i: -sizes[i])]


@dataclass(frozen=True)
class WorkerPlan:
    """How many workers, of what kind, on what; `runtime` is what runs the engine's networks."""

    num_workers: int
    executor: str
    devices: tuple[str, ...]
    memory_bytes: int
    note: str = ""
    runtime: str = ""

    def describe(self) -> Message:
        """Return one line: `2 processes x 1 thread on cpu by litert, at most 3200 MB each`."""
        template = {
            "processes": "{number:process|processes}",
            "threads": "{number:thread|threads} of one process",
            "serial": "1 process (serial)",
            "ray": "{number:worker|workers} of the Ray cluster",
        }.get(self.executor, "{number} {executor} workers")
        what = Message(template, number=self.num_workers, executor=self.executor)
        limit = ""
        if self.memory_bytes:
            limit = Message(", at most {limit_mb} MB each", limit_mb=self.memory_bytes >> 20)
        return Message(
            "{what} x 1 thread on {devices}{runtime}{limit}{note}",
            what=what,
            devices=", ".join(self.devices),
            runtime=Message(" by {runtime}", runtime=self.runtime) if self.runtime else "",
            limit=limit,
            note=Message(" ({note})", note=self.note) if self.note else "",
        )


def missing_gpus(config: JobConfig) -> str:
    """Return what to say where GPUs are asked for and this machine has none; empty otherwise."""
    number = config.num_gpus * config.num_workers_per_gpu
    if not number or list_gpus():
        return ""
    return Message(
        "{--num-gpus:{num_gpus}}: this machine has no NVIDIA GPU that its driver lists; "
        "{--workers:{number}} instead uses {number:process|processes} on the CPU",
        num_gpus=config.num_gpus,
        number=number,
    )


def plan_workers(config: JobConfig) -> WorkerPlan:
    """Return the workers a config asks for on this machine."""
    devices, note = tuple(config.devices()), ""
    is_ray, is_far = config.executor == "ray", bool(config.ray_address)
    if is_ray and config.num_gpus:
        devices = ("cuda:0",)  # Ray shows each worker its own GPU, and that one alone
    if config.executor == "serial":
        num_workers = 1
    elif config.num_gpus:
        num_workers = config.num_gpus * config.num_workers_per_gpu
    elif config.workers:
        num_workers = config.workers
    elif is_ray and is_far:
        from posemill.executors.ray_cluster import connected, count_room

        with connected(config.ray_address):
            num_workers = max(1, count_room())
        note = Message("more if machines join")
    else:
        num_workers, note = usual_workers()
    memory_bytes = 0
    if config.memory_limit_mb is not None:
        memory_bytes = config.memory_limit_mb << 20
    elif config.executor == "processes" or (is_ray and not is_far):
        # Else a new thread would be no smaller than the old one; other machines have other memory.
        share = int(_SHARE_OF_MEMORY * memory_limit().amount / num_workers)
        memory_bytes = max(_LEAST_MEMORY, share)
    return WorkerPlan(num_workers, config.executor, devices, memory_bytes, note)


def usual_workers() -> tuple[int, str]:
    """Return how many workers run where nobody said: one a core, and why if they are fewer."""
    cores, memory = count_cores(), memory_limit()
    fitting = max(1, int(_SHARE_OF_MEMORY * memory.amount) // _LEAST_MEMORY)
    if fitting >= cores:
        return cores, ""
    template = "not {cores}, one a core, for {memory_mb} MB of memory"
    note = Message(template, cores=cores, memory_mb=memory.amount >> 20)
    return fitting, join(": ", [note, memory.reason])


def frames_per_call(config: ExtractConfig) -> int:
    """Return how many frames the engine is shown at a time."""
    return config.batch_size or (16 if config.num_gpus else 4)
