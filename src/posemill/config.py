"""The settings of the jobs on frames: each is a flag of `posemill extract` or `posemill frames`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posemill.errors import ConfigError
from posemill.messages import Message, Option
from posemill.places import uri_of
from posemill.settings import Settings, setting


def skeleton_of(value: object) -> str:
    """Return the whole name of a skeleton (143 is short for one), or `auto`."""
    from posemill.skeletons import full_name

    return "auto" if value == "auto" else full_name(str(value))


def parse_size(
    value: object, *, option: str = "size", least: int = 1, most: int = 1 << 20
) -> tuple[int, int] | None:
    """Return width and height in pixels of `1280x720`, `(1280, 720)` or `256`; None for None."""
    if value is None:
        return None
    sides = value if isinstance(value, (tuple, list)) else str(value).lower().split("x")
    sides = [str(side) for side in sides] * (2 if len(sides) == 1 else 1)
    is_size = len(sides) == 2 and all(side.isascii() and side.isdecimal() for side in sides)
    if not is_size or not all(least <= int(side) <= most for side in sides):
        template = (
            "{option}: expected WIDTHxHEIGHT, such as 1280x720, or one side of a square, each of "
            "{least} to {most} pixels, got {value!r}"
        )
        raise ConfigError(template, option=Option(option), least=least, most=most, value=value)
    return int(sides[0]), int(sides[1])


def resize_of(value: object) -> str | None:
    """Return `WIDTHxHEIGHT` of a size that pictures are brought to; None for None."""
    size = parse_size(value, option="resize", least=8, most=8192)
    return None if size is None else f"{size[0]}x{size[1]}"


def _check_rate(fps: float | None, stride: int) -> None:
    if fps is not None and stride > 1:
        raise ConfigError("{--fps} and {--stride} both say which frames to keep: give one of them")


class ExtractConfig(Settings, command="extract"):
    """What to extract, into which folder, how, and with how many workers.

    Each field is a keyword, a name in a TOML file and a flag; its help says what it is.
    """

    source: Path = setting(
        "Frame tree, videos, pictures, one file, a list, PHOENIX-2014-T.",
        flags=("--dataset-path",),
        metavar="SOURCE",
        argument=True,
    )
    out: Path = setting(
        "The run's folder; the same settings with the same folder continue.",
        flags=("--out", "--output-path"),
        metavar="RUN",
    )
    layout: str = setting(
        "How the source is laid out.", default="auto", choices="posemill.sources:LAYOUTS"
    )
    splits: tuple[str, ...] | None = setting(
        "Splits to use: --splits train dev.", default=None, auto="all"
    )
    engine: str = setting(
        "Engine that finds the keypoints.",
        default="holistic",
        choices="posemill.estimators:known_engines",
    )
    engine_options: Mapping[str, Any] = setting(
        "Option of the engine, such as model_complexity=1. Can be given several times.",
        default={},
        flags=("--engine-option",),
        metavar="NAME=VALUE",
    )
    world: bool = setting(
        "Keep body and hands in metres, too (PoseClip.world); engines holistic, pose and hands.",
        default=False,
    )
    mode: str = setting(
        "image: each frame alone. video: tracked and smoothed from frame to frame. auto: video "
        "for videos and for folders of pictures that look like one.",
        default="auto",
        choices=("auto", "image", "video"),
    )
    skeleton: str = setting(
        "Skeleton to store, such as holistic-143 (or 143), the usual model input. auto: all "
        "keypoints that the engine finds.",
        default="auto",
        choices="posemill.skeletons:skeleton_names",
        convert=skeleton_of,
        old=("keep",),
        metavar="NAME",
    )
    decoder: str = setting(
        "Decoder that reads videos. auto: the fastest one that gives the same frames, as "
        "measured by posemill bench decode.",
        default="pyav",
        choices="posemill.decoders:decoder_choices",
    )
    resize: str | None = setting(
        "Resize every picture first: 256 (256 x 256) or 320x240. Keypoints then refer to the "
        "resized picture.",
        default=None,
        convert=resize_of,
        metavar="SIZE",
        auto="as they are",
    )
    fps: float | None = setting(
        "Frames to use per second of video.", default=None, above=0, auto="all"
    )
    stride: int = setting("Use every Nth frame.", default=1, least=1)
    split_long_seconds: float | None = setting(
        "Cut longer videos into pieces of about this length. Each piece is tracked on its own.",
        default=None,
        above=0,
        flags=("--split-long",),
        metavar="SECONDS",
        auto="never",
    )
    workers: int | None = setting(
        "Number of parallel workers.",
        default=None,
        least=1,
        auto="one per core, or what the GPUs ask",
    )
    executor: str = setting(
        "How workers are run.", default="processes", choices="posemill.executors:known_executors"
    )
    ray_address: str = setting(
        "With --executor ray: the cluster, as auto, host:port or ray://host:10001.",
        default="",
        auto="one of this machine alone",
    )
    num_gpus: int = setting(
        "Workers are bound to cuda:0, cuda:1 … in turn; 0: CPU.", default=0, least=0
    )
    num_workers_per_gpu: int = setting("Workers on each GPU.", default=1, least=1)
    batch_size: int | None = setting(
        "Frames per call, of one clip or of several side by side.",
        default=None,
        least=1,
        auto="4 on a CPU, whose caches hold the networks, 16 on a GPU",
    )
    task_frames: int = setting(
        "Frames per task: short clips are grouped up to about this number, longer ones are "
        "saved in pieces of it.",
        default=512,
        least=1,
    )
    timeout_seconds: float = setting(
        "Restart a worker that makes no progress for this many seconds.", default=120.0, above=0
    )
    memory_limit_mb: int | None = setting(
        "Memory limit per worker in MB. A worker above it is restarted. 0: no limit.",
        default=None,
        least=0,
        metavar="MB",
        auto="its share of 80 % of the memory, at least 512 MB",
    )
    max_tries: int = setting(
        "Give up on a frame after it has crashed a worker this many times.", default=3, least=1
    )
    storage: str = setting(
        "Storage of the run's folder: local, or shared by several machines (NFS, Lustre, SMB: "
        "records and a lease instead of SQLite and a lock). auto: by its mount. A URI needs "
        "none.",
        default="auto",
        choices=("auto", "local", "shared"),
    )
    retry_failed: bool = setting(
        "Try again the frames that failed before. By default they stay failed.", default=False
    )
    overwrite: bool = setting(
        "Replace the file that --out names where posemill did not write it for this run.",
        default=False,
    )
    temp_dir: Path | None = setting(
        "The workers' folder for temporary files.", default=None, auto="the system's"
    )

    def check(self) -> None:
        """Raise `ConfigError` where two settings contradict each other."""
        _check_rate(self.fps, self.stride)
        if self.workers is not None and self.num_gpus:
            raise ConfigError(
                "{--workers} and {--num-gpus} exclude each other: with GPUs the number of workers "
                "is {--num-gpus} x {--num-workers-per-gpu}"
            )

    def devices(self) -> list[str]:
        """Return one device per worker that shares it, in turn: worker i has `devices[i % n]`."""
        return [f"cuda:{index}" for index in range(self.num_gpus)] or ["cpu"]

    def all_engine_options(self) -> dict[str, Any]:
        """Return the engine's options, `world` among them where it is asked for."""
        return {**self.engine_options, **({"world": True} if self.world else {})}

    def deciding_options(self) -> dict[str, Any]:
        """Return the options that decide the result: they cannot change while a run goes on.

        The skeleton decides too; it has a place of its own in the manifest.
        """
        names = "mode decoder resize fps split_long_seconds"
        return {
            **{name: getattr(self, name) for name in names.split()},
            "stride": self.stride if self.stride > 1 else None,  # as runs of before have it
            "splits": None if self.splits is None else list(self.splits),
        }


def as_in_extract(name: str, **changes: Any) -> Any:
    """Return a field as `ExtractConfig` has it, perhaps with another default or help."""
    field = ExtractConfig.all_fields()[name]
    return setting(**{**field.meta, "default": field.default, **changes})


class FramesConfig(Settings, command="frames"):
    """Which videos to decode once, into which folder, as what pictures."""

    source: Path = as_in_extract("source", help="Videos, one of them, a list of them; frames too.")
    out: Path = as_in_extract(
        "out",
        help="The folder of the frames, or a URI; the same settings with the same folder continue.",
        metavar="FOLDER",
    )
    layout: str = as_in_extract("layout")
    splits: tuple[str, ...] | None = as_in_extract("splits")
    resize: str | None = as_in_extract(
        "resize", help="Size of the pictures: 256 (256 x 256) or 340x256."
    )
    short_side: bool = setting(
        "--resize is the length of the shorter side; the proportions stay.", default=False
    )
    fps: float | None = as_in_extract("fps", help="Frames to keep per second of video.")
    stride: int = as_in_extract("stride")
    format: str = setting(
        "Picture format. png loses nothing and takes six times the disk space.",
        default="jpg",
        choices=("jpg", "png", "webp"),
    )
    quality: int = setting("Quality of jpg and webp, 1 to 100.", default=90, least=1, most=100)
    pack: bool = setting(
        "Write all frames as raw bytes into a few large files instead of pictures: faster to "
        "read, much more disk space.",
        default=False,
    )
    decoder: str = as_in_extract("decoder")
    workers: int | None = as_in_extract("workers")
    executor: str = as_in_extract("executor")
    ray_address: str = as_in_extract("ray_address")
    task_frames: int = as_in_extract("task_frames", default=2048)
    timeout_seconds: float = as_in_extract("timeout_seconds")
    memory_limit_mb: int | None = as_in_extract("memory_limit_mb")
    max_tries: int = as_in_extract("max_tries")
    retry_failed: bool = as_in_extract("retry_failed")
    temp_dir: Path | None = as_in_extract("temp_dir")
    num_gpus = 0  # of no use here
    num_workers_per_gpu = 1

    def check(self) -> None:
        """Raise `ConfigError` where two settings contradict each other."""
        if (uri := uri_of(self.out)) is not None:
            raise ConfigError(
                "{--out}: frames are written into a folder of this machine, not to {uri}; give a "
                "path",
                uri=uri,
            )
        _check_rate(self.fps, self.stride)
        width, height = parse_size(self.resize) or (0, 0)
        if self.short_side and (not width or width != height):
            raise ConfigError(
                "{--short-side} needs one number, the length of the shorter side: {--resize:256} "
                "{--short-side:True}; got {size}",
                size=self.resize or Message("no size"),
            )

    @property
    def target_size(self) -> tuple[int, int] | int | None:
        """Width and height, the shorter side alone, or None for frames as they are."""
        size_wh = parse_size(self.resize)
        return size_wh[0] if size_wh and self.short_side else size_wh

    def devices(self) -> list[str]:
        """Return what workers run on."""
        return ["cpu"]

    def deciding_options(self) -> dict[str, Any]:
        """Return the options that decide the result: they cannot change while it goes on."""
        names = "resize short_side fps stride decoder"
        return {
            **{name: getattr(self, name) for name in names.split()},
            "format": "rgb" if self.pack else self.format,
            "quality": None if self.pack or self.format == "png" else self.quality,
            "splits": None if self.splits is None else list(self.splits),
        }


# What the machinery of both jobs reads of their settings.
JobConfig = ExtractConfig | FramesConfig
