"""Clips a trained model has not seen: estimated or read, then shaped as its data was."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from posemill.clips.inputs import ClipInput
from posemill.decoders.choice import AUTO, settle_for_extraction
from posemill.decoders.opening import PICTURE_SUFFIXES, VIDEO_SUFFIXES, suffix_of, without_suffix
from posemill.decoders.sampling import fewer_frames
from posemill.errors import DecodeError, SourceError
from posemill.files import near_path
from posemill.formats.shared.contract import Recipe
from posemill.jobs.convert.shaping import shape_clip
from posemill.jobs.landmarks import clip_at, estimate_landmarks
from posemill.messages import Message
from posemill.records import PoseClip
from posemill.runs.manifest import MANIFEST_NAME
from posemill.sources import find_clips
from posemill.sources.frames import count_frames
from posemill.terminal import warn_once


def clips_like(
    source: Path,
    skeleton_name: str,
    recipe: Mapping[str, Any],
    *,
    device: str = "cpu",
    threads: int = 1,
    is_alone: bool = True,
    on_frame: Callable[[], None] = lambda: None,
) -> Iterator[tuple[PoseClip | None, list[DecodeError]]]:
    """Yield each clip of a source in a layout and by a recipe, with what could not be read of it.

    None stands for a clip of several of which nothing could be read; the only one is a DecodeError.

    Keypoints are found as those of the recipe's data were: by the same engine with the same
    options, in the same mode, read by the same decoder.

    Args:
        source: A run; a video, a picture, a folder of pictures, or a folder of videos.
        skeleton_name: Layout of the result.
        recipe: `normalize`, `interpolate`, `smooth` and `extraction` of `posemill prepare`; empty
            for none.
        device: For the engine, where one is needed.
        threads: For the engine.
        is_alone: Whether there are no other sources.
        on_frame: Called after each frame that was estimated.
    """
    wanted = Recipe(
        normalize=str(recipe.get("normalize", "none")),
        interpolate=int(recipe.get("interpolate", 0)),
        smooth=str(recipe.get("smooth", "none")),
    )
    if (source / MANIFEST_NAME).is_file():
        for clip in ClipInput(source).clips(layout=skeleton_name):
            yield shape_clip(clip, wanted, skeleton_name), []
        return
    named = _named_clips(source)
    found_by = _extraction_of(recipe)
    for clip_id, path in named:
        try:
            clip, errors = estimate_landmarks(
                path, **found_by, device=device, threads=threads, on_frame=on_frame
            )
        except DecodeError as error:
            if is_alone and len(named) == 1:
                raise
            yield None, [error]
            continue
        clip = dataclasses.replace(clip, clip_id=clip_id)
        yield shape_clip(clip, wanted, skeleton_name), errors


def count_new_frames(source: Path, recipe: Mapping[str, Any]) -> int:
    """Return of how many frames `clips_like` will find keypoints; those of a run are there."""
    if (source / MANIFEST_NAME).is_file():
        return 0
    found_by = recipe.get("extraction") or {}
    decoder = settle_for_extraction(found_by.get("decoder") or AUTO)
    fps, stride = found_by.get("fps"), found_by.get("stride") or 1
    clips = [clip_at(path) for _, path in _named_clips(source)]
    samplings = [fewer_frames(fps if clip.kind == "video" else None, stride) for clip in clips]
    counts = (
        count_frames(clip, decoder, sampling)
        for clip, sampling in zip(clips, samplings, strict=True)
    )
    return sum(count or 0 for count in counts)  # one that cannot be read has none


def _extraction_of(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of `estimate_landmarks` that find keypoints as those of the data."""
    known = {
        name: value for name, value in (recipe.get("extraction") or {}).items() if value is not None
    }
    if not known:
        warn_once(
            Message(
                "the model's data do not say how their keypoints were found; new ones are found "
                "by engine holistic in video mode"
            )
        )
    return {"mode": "video", **known}


def _named_clips(source: Path) -> list[tuple[str, Path]]:
    """Return the ids, as `extract` gives them, and the paths of the clips of what is no run.

    A folder that holds pictures itself is one clip.
    """
    if not source.exists():
        raise SourceError(
            "{source}: no such file or folder; expected a video, pictures, a run, or data "
            "that `posemill prepare` wrote{hint}",
            source=source,
            hint=near_path(source),
        )
    if not source.is_dir():
        is_video = suffix_of(source.name) in VIDEO_SUFFIXES
        return [(without_suffix(source.name) if is_video else source.name, source)]
    clips = find_clips(source)  # refuses videos and pictures side by side
    if any(suffix_of(entry.name) in PICTURE_SUFFIXES for entry in source.iterdir()):
        return [(source.name, source)]
    return [(clip.clip_id, Path(clip.path)) for clip in clips]
