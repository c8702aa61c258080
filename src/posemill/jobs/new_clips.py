"""Clips a trained model has not seen: estimated or read, then shaped as its data was."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from posemill.clips.inputs import ClipInput
from posemill.errors import DecodeError, SourceError
from posemill.formats.shared.contract import Recipe
from posemill.jobs.convert.shaping import shape_clip
from posemill.jobs.landmarks import estimate_landmarks
from posemill.records import PoseClip
from posemill.sources import find_clips
from posemill.sources.names import PICTURE_SUFFIXES, suffix_of
from posemill.stores.manifest import MANIFEST_NAME
from posemill.terminal import warn_once


def clips_like(
    source: Path,
    skeleton_name: str,
    recipe: Mapping[str, Any],
    *,
    device: str = "cpu",
    threads: int = 1,
    on_frame: Callable[[], None] = lambda: None,
) -> Iterator[tuple[PoseClip, list[DecodeError]]]:
    """Yield each clip of a source in a layout and by a recipe, with what could not be read of it.

    Keypoints are found as those of the recipe's data were: by the same engine with the same
    options, in the same mode, read by the same decoder.

    Args:
        source: A run; a video, a picture, a folder of pictures, or a folder of videos.
        skeleton_name: Layout of the result.
        recipe: `normalize`, `interpolate` and `extraction` of `posemill prepare`; empty for none.
        device: For the engine, where one is needed.
        threads: For the engine.
        on_frame: Called after each frame that was estimated.
    """
    wanted = Recipe(
        normalize=str(recipe.get("normalize", "none")),
        interpolate=int(recipe.get("interpolate", 0)),
    )
    if (source / MANIFEST_NAME).is_file():
        for clip in ClipInput(source).clips(layout=skeleton_name):
            yield shape_clip(clip, wanted, skeleton_name), []
        return
    paths = _paths(source)
    found_by = _extraction_of(recipe)
    for path in paths:
        clip, errors = estimate_landmarks(
            path, **found_by, device=device, threads=threads, on_frame=on_frame
        )
        yield shape_clip(clip, wanted, skeleton_name), errors


def _extraction_of(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of `estimate_landmarks` that find keypoints as those of the data."""
    known = {
        name: value for name, value in (recipe.get("extraction") or {}).items() if value is not None
    }
    if not known:
        warn_once(
            "the model's data do not say how their keypoints were found; new ones are found by "
            "engine holistic in video mode"
        )
    return {"mode": "video", **known}


def _paths(source: Path) -> list[Path]:
    """The clips of a source that is no run: itself, or the videos of a folder."""
    if not source.exists():
        raise SourceError(
            f"{source}: no such file or folder; expected a video, pictures, a run, or data that "
            "`posemill prepare` wrote"
        )
    if not source.is_dir():
        return [source]
    if any(suffix_of(entry.name) in PICTURE_SUFFIXES for entry in source.iterdir()):
        return [source]
    return [Path(clip.path) for clip in find_clips(source)]
