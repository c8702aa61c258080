"""`landmarks`: the keypoints of one clip or folder, without a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from posemill.commands.arguments import AnyPath, here
from posemill.commands.declaring import AsJson, Ask, Command, Overwrite
from posemill.commands.printing import print_json, print_table, say
from posemill.commands.progress import show_progress
from posemill.config import as_in_extract
from posemill.errors import ConfigError
from posemill.messages import Message
from posemill.settings import Settings, setting
from posemill.terminal import warn_caller

if TYPE_CHECKING:
    from posemill.errors import DecodeError
    from posemill.records import PoseClip


class LandmarkSettings(Settings, command="landmarks"):
    """How the keypoints of a clip are found."""

    mode: str = as_in_extract("mode")
    engine: str = as_in_extract("engine")
    engine_options: Mapping[str, Any] = as_in_extract("engine_options")
    world: bool = as_in_extract("world")
    decoder: str = as_in_extract("decoder")
    device: str = setting("cpu, cuda:N or tensorrt:N.", default="cpu")
    threads: int = setting("Threads inside the networks.", default=1, least=1)


def landmarks(
    source: Annotated[
        AnyPath, setting("A folder of pictures, a picture, or a video.", argument=True)
    ],
    out: Annotated[AnyPath | None, setting("The .npz file to write.")] = None,
    *,
    overwrite: Overwrite = False,
    progress: bool | None = None,
    **settings: Annotated[Any, LandmarkSettings],
) -> PoseClip:
    """Find the keypoints of one clip or folder, without making a run.

    A frame that cannot be read is a row without keypoints, and a warning. `progress` is bars on a
    terminal or a line in a notebook; False for none.
    """
    clip, _, _, errors = _find_landmarks(
        source, out, overwrite=overwrite, progress=progress, **settings
    )
    for error in errors:
        warn_caller(error.sentence)
    return clip


def _find_landmarks(
    source: AnyPath,
    out: AnyPath | None,
    *,
    overwrite: bool = False,
    progress: bool | None = None,
    **settings: Any,
) -> tuple[PoseClip, str, str, list[DecodeError]]:
    """Return the clip, its mode, the reason if nobody chose it, and frames that cannot be read."""
    from posemill.decoders.choice import settle_for_extraction
    from posemill.jobs.landmarks import check_out, choose_mode, estimate_landmarks, save_landmarks
    from posemill.sources import clip_at
    from posemill.sources.reading import count_frames

    how, why = LandmarkSettings(**settings).to_dict(), ""
    if how.pop("world"):
        how["engine_options"]["world"] = True
    path, target = Path(source), None if out is None else here(out)
    num_frames = count_frames(clip_at(path), settle_for_extraction(how["decoder"]))
    if target is not None:
        check_out(target, source=path, overwrite=overwrite)
    if how["mode"] == "auto":
        how["mode"], why = choose_mode(path, how["engine"])
    with show_progress("landmarks", num_frames, progress=progress) as advance:
        clip, errors = estimate_landmarks(path, **how, on_frame=advance)
    if target is not None:
        save_landmarks(clip, target, source=path, overwrite=overwrite)
    return clip, how["mode"], why, errors


def _show_landmarks(ask: Ask, *, as_json: AsJson = False) -> int:
    from posemill.skeletons.palette import part_label

    out = ask.keywords.get("out")
    if out is None:
        raise ConfigError("{--out} is missing; expected the .npz file to write")
    clip, mode, why, errors = _find_landmarks(**ask.keywords)
    found = dict(zip(clip.skeleton.part_names, clip.present.sum(0).tolist(), strict=True))
    if why:
        say("mode {mode}: {why}; {--mode} overrules it", mode=mode, why=why, err=True)
    if as_json:
        failed = [str(error) for error in errors]
        summary = {"mode": mode, "frames": len(clip), "found": found, "failed": failed}
        print_json({"out": out, **summary})
    else:
        rows = [(Message(part_label(name)), number, len(clip)) for name, number in found.items()]
        print_table(["part", "frames found", "of"], rows)
        say("{path}", path=out)
    for error in errors:
        say("posemill: {error}", error=error, err=True, style="red")
    return 1 if errors else 0


COMMANDS = (Command("landmarks", landmarks, _show_landmarks),)
