"""The settings of the jobs on frames: each is a flag of `posemill extract` or `posemill frames`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posemill.errors import ConfigError
from posemill.places import uri_of
from posemill.settings import Settings, setting


def skeleton_of(value: object) -> str:
    """Return the whole name of a skeleton (143 is short for one), or `auto`."""
    from posemill.skeletons import full_name

    return "auto" if value == "auto" else full_name(str(value))


def resize_of(value: object, name: str = "resize") -> str | None:
    """Return `WIDTHxHEIGHT` of a size: `256` is 256x256. None for None."""
    if value is None:
        return None
    sides = value if isinstance(value, (tuple, list)) else str(value).lower().split("x")
    sides = [str(side) for side in sides] * (2 if len(sides) == 1 else 1)
    is_size = len(sides) == 2 and all(side.isascii() and side.isdecimal() for side in sides)
    if not is_size or not all(_LEAST_SIDE <= int(side) <= _MOST_SIDE for side in sides):
        raise ConfigError(
            f"{name}: expected a side (256: 256 x 256) or WIDTHxHEIGHT, each of {_LEAST_SIDE} to "
            f"{_MOST_SIDE} pixels, got {value!r}"
        )
    return "x".join(str(int(side)) for side in sides)


_LEAST_SIDE, _MOST_SIDE = 8, 8192


def size_of(resize: str | None) -> tuple[int, int] | None:
    """Return width and height of what `resize_of` gives; None for None."""
    if resize is None:
        return None
    width, height = map(int, resize.split("x"))
    return width, height


class ExtractConfig(Settings, command="extract"):
    """What to extract, into which folder, how, and with how many workers.

    Each field is a keyword, a name in a TOML file and a flag; its help says what it is.
    """

    source: Path = setting(
        "Frame tree, videos, pictures, one file, a list, PHOENIX-2014-T.",
        flags=("--dataset-path",), metavar="SOURCE", argument=True,
    )  # fmt: skip
    out: Path = setting(
        "The run's folder; the same settings with the same folder continue.",
        flags=("--out", "--output-path"), metavar="RUN",
    )  # fmt: skip
    layout: str = setting(
        "How the source is laid out.", default="auto", choices="posemill.sources:LAYOUTS",
        is_open=True,
    )  # fmt: skip
    splits: tuple[str, ...] | None = setting(
        "Only these: --splits train dev.", default=None, auto="all"
    )
    engine: str = setting(
        "What finds the keypoints.", default="holistic", is_open=True,
        choices="posemill.estimators:known_engines",
    )  # fmt: skip
    engine_options: Mapping[str, Any] = setting(
        "An option of the engine: model_complexity=1. More than one may follow.",
        default={}, flags=("--engine-option",), metavar="NAME=VALUE",
    )  # fmt: skip
    world: bool = setting(
        "Keep body and hands in metres, too (PoseClip.world); engines holistic, pose and hands.",
        default=False,
    )
    mode: str = setting(
        "video tracks from frame to frame, image treats each alone; auto: videos are tracked, and "
        "folders of pictures that look like one; it is said which.",
        default="auto", choices=("auto", "image", "video"),
    )  # fmt: skip
    skeleton: str = setting(
        "Keypoints to store: a skeleton the engine can give, such as holistic-143 (or 143), the "
        "usual model input; auto: all it finds.",
        default="auto", choices="posemill.skeletons:skeleton_names", is_open=True,
        convert=skeleton_of,
        old=("keep",), metavar="NAME",
    )  # fmt: skip
    decoder: str = setting(
        "What reads videos; auto: the quickest with the same frames, by posemill bench decode.",
        default="pyav",
        choices="posemill.decoders:decoder_choices",
        is_open=True,
    )
    resize: str | None = setting(
        "Bring every picture to this size first, as 256 (256 x 256) or 320x240; keypoints then are "
        "those of the resized picture.",
        default=None, convert=resize_of, metavar="SIZE", auto="as they are",
    )  # fmt: skip
    fps: float | None = setting(
        "Extract as many frames of a second.", default=None, above=0, auto="all"
    )
    stride: int = setting("Use every Nth frame.", default=1, least=1)
    split_long_seconds: float | None = setting(
        "Cut longer videos into pieces of about this length that know nothing of each other.",
        default=None, above=0, flags=("--split-long",), metavar="SECONDS", auto="never",
    )  # fmt: skip
    workers: int | None = setting(
        "Workers side by side.", default=None, least=1, auto="one per core, or what the GPUs ask"
    )
    executor: str = setting(
        "What runs them.", default="processes", choices="posemill.executors:known_executors",
        is_open=True,
    )  # fmt: skip
    ray_address: str = setting(
        "With --executor ray: the cluster, as auto, host:port or ray://host:10001.", default="",
        auto="one of this machine alone",
    )  # fmt: skip
    num_gpus: int = setting(
        "Workers are bound to cuda:0, cuda:1 … in turn; 0: CPU.", default=0, least=0
    )
    num_workers_per_gpu: int = setting("Workers on each GPU.", default=1, least=1)
    batch_size: int | None = setting(
        "Frames per call, of one clip or of several side by side.", default=None, least=1,
        auto="4 on a CPU, whose caches hold the networks, 16 on a GPU",
    )  # fmt: skip
    task_frames: int = setting(
        "Short clips are grouped up to about as many frames, longer ones committed in pieces of "
        "as many.",
        default=512, least=1,
    )  # fmt: skip
    timeout_seconds: float = setting(
        "A worker without progress for longer is replaced.", default=120.0, above=0
    )
    memory_limit_mb: int | None = setting(
        "Of one worker; one that grows past it is replaced; 0: no limit.", default=None, least=0,
        metavar="MB", auto="its share of 80 % of the memory, at least 512 MB",
    )  # fmt: skip
    max_tries: int = setting(
        "A frame that takes its worker down as often is given up.", default=3, least=1
    )
    storage: str = setting(
        "What the run's folder is on: local, or shared by machines (NFS, Lustre, SMB: records and "
        "a lease instead of SQLite and a lock); auto: by its mount. A URI says it itself.",
        default="auto", choices=("auto", "local", "shared"),
    )  # fmt: skip
    retry_failed: bool = setting(
        "Try again what failed before; without it failed frames stay failed.", default=False
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
        if self.fps is not None and self.stride > 1:
            raise ConfigError("fps and stride both say which frames to extract: give one of them")
        if self.workers is not None and self.num_gpus:
            raise ConfigError(
                "workers and num_gpus exclude each other: with GPUs the number of workers is "
                "num_gpus x num_workers_per_gpu"
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
        return {
            "mode": self.mode,
            "decoder": self.decoder,
            "resize": self.resize,
            "fps": self.fps,
            "stride": self.stride if self.stride > 1 else None,  # as runs of before have it
            "split_long_seconds": self.split_long_seconds,
            "splits": None if self.splits is None else list(self.splits),
        }


def _as_in_extract(name: str, default: Any = dataclasses.MISSING) -> Any:
    """Return a field as `ExtractConfig` has it, perhaps with another default."""
    field = next(each for each in dataclasses.fields(ExtractConfig) if each.name == name)
    value = field.default if default is dataclasses.MISSING else default
    return dataclasses.field(default=value, metadata=field.metadata)


class FramesConfig(Settings, command="frames"):
    """Which videos to decode once, into which folder, as what pictures.

    Each field is a keyword, a name in a TOML file and a flag; its help says what it is.
    """

    source: Path = setting(
        "Videos, one of them, a list of them; frames too.",
        flags=("--dataset-path",), metavar="SOURCE", argument=True,
    )  # fmt: skip
    out: Path = setting(
        "The folder of the frames, or a URI; the same settings with the same folder continue.",
        flags=("--out", "--output-path"), metavar="FOLDER",
    )  # fmt: skip
    layout: str = _as_in_extract("layout")
    splits: tuple[str, ...] | None = _as_in_extract("splits")
    size: str | None = setting(
        "Size of the pictures: 256 (256 x 256) or 340x256.",
        default=None, convert=lambda value: resize_of(value, "size"), auto="as they are",
    )  # fmt: skip
    short_side: bool = setting(
        "--size is that of the shorter side; the other one follows, the shape stays.",
        default=False,
    )
    fps: float | None = setting(
        "Keep as many frames of a second.", default=None, above=0, auto="all"
    )
    stride: int = _as_in_extract("stride")
    format: str = setting(
        "What the pictures are; png loses nothing and takes six times the disk.", default="jpg",
        choices=("jpg", "png", "webp"),
    )  # fmt: skip
    quality: int = setting("Of jpg and webp, 1 to 100.", default=90, least=1, most=100)
    pack: bool = setting(
        "No pictures: all frames as plain bytes in a few large files, for those with the disk.",
        default=False,
    )
    decoder: str = _as_in_extract("decoder")
    workers: int | None = _as_in_extract("workers")
    executor: str = _as_in_extract("executor")
    ray_address: str = _as_in_extract("ray_address")
    task_frames: int = _as_in_extract("task_frames", default=2048)
    timeout_seconds: float = _as_in_extract("timeout_seconds")
    memory_limit_mb: int | None = _as_in_extract("memory_limit_mb")
    max_tries: int = _as_in_extract("max_tries")
    retry_failed: bool = _as_in_extract("retry_failed")
    temp_dir: Path | None = _as_in_extract("temp_dir")
    num_gpus = 0  # of no use here
    num_workers_per_gpu = 1

    def check(self) -> None:
        """Raise `ConfigError` where two settings contradict each other."""
        if self.pack and (uri := uri_of(self.out)) is not None:
            raise ConfigError(
                f"pack: packs are written in place, into a folder of this machine, not {uri}; "
                "leave --pack out, or give a path"
            )
        if self.fps is not None and self.stride > 1:
            raise ConfigError("fps and stride both say which frames to keep: give one of them")
        width, height = size_of(self.size) or (0, 0)
        if self.short_side and (not width or width != height):
            raise ConfigError(
                "short_side needs size to be one number, that of the shorter side: "
                f"--size 256 --short-side; size is {self.size or 'not given'}"
            )

    @property
    def target_size(self) -> tuple[int, int] | int | None:
        """Width and height, the shorter side alone, or None for frames as they are."""
        size_wh = size_of(self.size)
        return size_wh[0] if size_wh and self.short_side else size_wh

    def devices(self) -> list[str]:
        """Return what workers run on."""
        return ["cpu"]

    def deciding_options(self) -> dict[str, Any]:
        """Return the options that decide the result: they cannot change while it goes on."""
        return {
            "size": self.size,
            "short_side": self.short_side,
            "fps": self.fps,
            "stride": self.stride,
            "format": "rgb" if self.pack else self.format,
            "quality": None if self.pack or self.format == "png" else self.quality,
            "decoder": self.decoder,
            "splits": None if self.splits is None else list(self.splits),
        }


# What the machinery of both jobs reads of their settings.
JobConfig = ExtractConfig | FramesConfig
