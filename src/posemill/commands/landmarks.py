"""`landmarks`: the keypoints of one clip or folder, without a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

from posemill.commands.arguments import AnyPath, here
from posemill.commands.declaring import AsJson, Ask, Command, Overwrite, door, parameters_of
from posemill.commands.printing import print_json, print_table, say
from posemill.commands.progress import show_progress
from posemill.errors import ConfigError
from posemill.messages import Message
from posemill.settings import setting
from posemill.terminal import warn_caller

if TYPE_CHECKING:
    from posemill.errors import DecodeError
    from posemill.jobs.landmarks import Mode
    from posemill.records import PoseClip


class Landmarks(NamedTuple):
    """What was found in a source.

    Args:
        clip: The keypoints; a frame that cannot be read is a row without any.
        mode: How frames belong together.
        why: Reason of the mode, where nobody asked for one.
        errors: Frames that cannot be read.
    """

    clip: PoseClip
    mode: Mode
    why: str
    errors: list[DecodeError]


@door()
def landmarks(
    source: Annotated[
        AnyPath, setting("A folder of pictures, a picture, or a video.", argument=True)
    ],
    out: Annotated[AnyPath | None, setting("The .npz file to write.")] = None,
    *,
    mode: Annotated[
        str,
        setting(
            "image: each frame alone. video: tracked and smoothed from frame to frame. auto: "
            "video for videos and for folders of pictures that look like one.",
            choices=("auto", "image", "video"),
        ),
    ] = "auto",
    engine: Annotated[
        str,
        setting(
            "Engine that finds the keypoints.",
            choices="posemill.estimators:known_engines",
            is_open=True,
        ),
    ] = "holistic",
    engine_options: Annotated[
        Mapping[str, Any] | None,
        setting("Option of the engine.", flags=("--engine-option",), metavar="NAME=VALUE"),
    ] = None,
    world: Annotated[
        bool,
        setting(
            "Keep body and hands in metres, too (PoseClip.world); engines holistic, pose and hands."
        ),
    ] = False,
    decoder: Annotated[
        str,
        setting(
            "Decoder that reads videos.", choices="posemill.decoders:decoder_choices", is_open=True
        ),
    ] = "pyav",
    device: Annotated[str, setting("cpu, cuda:N or tensorrt:N.")] = "cpu",
    threads: Annotated[int, setting("Threads inside the networks.", least=1)] = 1,
    overwrite: Overwrite = False,
    progress: bool | None = None,
) -> PoseClip:
    """Find the keypoints of one clip or folder, without making a run.

    A frame that cannot be read is a row without keypoints, and a warning. `progress` is bars on a
    terminal or a line in a notebook; False for none.
    """
    found = find_landmarks(
        Path(source),
        None if out is None else here(out),
        mode=mode,
        engine=engine,
        engine_options=engine_options or {},
        world=world,
        decoder=decoder,
        device=device,
        threads=threads,
        overwrite=overwrite,
        progress=progress,
    )
    for error in found.errors:
        warn_caller(error.sentence)
    return found.clip


def find_landmarks(
    source: Path,
    out: Path | None = None,
    *,
    mode: str = "auto",
    engine: str = "holistic",
    engine_options: Mapping[str, Any] | None = None,
    world: bool = False,
    decoder: str = "pyav",
    device: str = "cpu",
    threads: int = 1,
    overwrite: bool = False,
    progress: bool | None = None,
) -> Landmarks:
    """Return what is found in a source, and write it; arguments as `landmarks` has them."""
    from posemill.decoders.choice import settle_for_extraction
    from posemill.estimators import engine_info
    from posemill.jobs.landmarks import (
        check_out,
        choose_mode,
        clip_at,
        estimate_landmarks,
        save_landmarks,
    )
    from posemill.skeletons import get_skeleton
    from posemill.sources.frames import count_frames

    options = {**(engine_options or {}), **({"world": True} if world else {})}
    decoder = settle_for_extraction(decoder)
    num_frames = count_frames(clip_at(source), decoder)
    if out is not None:
        num_points = get_skeleton(engine_info(engine, options).skeleton_names[0]).num_points
        check_out(out, num_frames, num_points=num_points, source=source, overwrite=overwrite)
    chosen, why = choose_mode(source, engine) if mode == "auto" else (cast("Mode", mode), "")
    with show_progress("landmarks", num_frames, progress=progress) as advance:
        clip, errors = estimate_landmarks(
            source,
            mode=chosen,
            engine=engine,
            engine_options=options,
            decoder=decoder,
            device=device,
            threads=threads,
            on_frame=advance,
        )
    if out is not None:
        save_landmarks(clip, out, source=source, overwrite=overwrite)
    return Landmarks(clip, chosen, why, errors)


def _show_landmarks(ask: Ask, *, as_json: AsJson = False) -> int:
    from posemill.skeletons.palette import part_label

    given = {
        name: parameters_of(landmarks)[name].check(value) for name, value in ask.values.items()
    }
    if "out" not in given:
        raise ConfigError("{--out} is missing; expected the .npz file to write")
    clip, chosen, why, errors = find_landmarks(**given)
    out = given["out"]
    found = dict(zip(clip.skeleton.part_names, clip.present.sum(0).tolist(), strict=True))
    if why:
        say("mode {mode}: {why}; {--mode} overrules it", mode=chosen, why=why, err=True)
    summary = {
        "mode": chosen,
        "frames": len(clip),
        "found": found,
        "failed": [str(error) for error in errors],
    }
    if as_json:
        print_json({"out": str(out), **summary})
    else:
        rows = [(Message(part_label(name)), number, len(clip)) for name, number in found.items()]
        print_table(["part", "frames found", "of"], rows)
        say("{path}", path=out)
    for error in errors:
        say("posemill: {error}", error=error, err=True, colour="red")
    return 1 if errors else 0


COMMANDS = (
    Command(
        "landmarks",
        landmarks,
        _show_landmarks,
        aliases={"--runtime": "--engine-option runtime="},
    ),
)
