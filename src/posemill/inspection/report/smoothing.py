"""What smoothing would do to a clip: how much jitter it takes away, and how late points come."""

from __future__ import annotations

import numpy as np

from posemill.clips.smoothing import METHODS, USUAL_FPS, smooth
from posemill.inspection.quality import ClipQuality, RunQuality
from posemill.inspection.report.page import colour_key, line_chart, section, table
from posemill.messages import Message
from posemill.records import FloatArray, PoseClip
from posemill.skeletons.palette import GREY, part_colour

_COLOURS = dict(zip(METHODS, map(part_colour, ("left_hand", "right_hand", "face")), strict=True))
_LEAST_FRAMES, _SHOWN_FRAMES = 12, 60
_MOST_LAG = 10  # frames


def clip_to_smooth(quality: RunQuality) -> ClipQuality | None:
    """Return the longest of the kept clips that can be smoothed; None where none can."""

    def is_fit(clip: ClipQuality) -> bool:
        is_found = any(part.num_present for part in clip.parts)
        return clip.is_continuous and clip.num_frames >= _LEAST_FRAMES and is_found

    return max(filter(is_fit, quality.worst), key=lambda clip: clip.num_frames, default=None)


def smoothing_section(clip: PoseClip) -> str:
    """Return jitter and lag of each filter on a clip, and one point of it before and after."""
    sizes = np.maximum(clip.sizes_wh, 1).astype(np.float32)[:, None]
    raw = clip.points[..., :2] * sizes
    ways = {name: smooth(clip, name).points[..., :2] * sizes for name in METHODS}
    before, fps = jitter_of(raw), clip.fps or USUAL_FPS
    rows: list[tuple[str, float, str, str]] = [("none", before, "100%", "-")]
    for name, points in ways.items():
        jitter = jitter_of(points)
        share = f"{jitter / before:.0%}" if before else "-"
        rows.append((name, jitter, share, f"{1000 * lag_of(raw, points) / fps:.0f} ms"))
    point, axis = _liveliest(raw)
    shown = _shown_rows(raw[:, point, axis])
    lines = [("none", GREY, raw[shown, point, axis])]
    lines += [(name, _COLOURS[name], points[shown, point, axis]) for name, points in ways.items()]
    words = Message(
        "{axis} of {point} in pixels, frames {first} to {last}",
        axis="xy"[axis],
        point=clip.skeleton.point_names[point],
        first=clip.frame_indices[shown][0],
        last=clip.frame_indices[shown][-1],
    )
    columns = [Message("filter"), Message("jitter, px"), Message("jitter left"), Message("lag")]
    numbers, key = table(columns, rows), colour_key([line[:2] for line in lines])
    chart = line_chart([line[1:] for line in lines], label=words)
    return section(
        Message("What smoothing does"),
        f'<div class="row"><div>{numbers}{key}</div><div>{chart}</div></div>',
        remark=Message(
            "Clip {clip_id}, smoothed in three ways. Jitter is the mean change of a point's speed "
            "from frame to frame; lag is how late the smoothed points come. one-euro looks back "
            "only, the others look ahead too. Choose one by {--smooth} when you prepare or export.",
            clip_id=clip.clip_id,
        ),
    )


def jitter_of(points: FloatArray) -> float:
    """Return the mean length of the second difference along time, in pixels; 0 without any.

    Points are `(frames, keypoints, 2)` in pixels, NaN where missing.
    """
    changes = np.linalg.norm(np.diff(points, 2, axis=0), axis=-1)
    changes = changes[np.isfinite(changes)]
    return float(changes.mean()) if changes.size else 0.0


def lag_of(raw: FloatArray, smoothed: FloatArray) -> float:
    """Return by how many frames the smoothed points come late: the shift that fits them best.

    Both are `(frames, keypoints, 2)` in pixels, NaN where missing.
    """
    errors = []
    for shift in range(min(_MOST_LAG, len(raw) - 1) + 1):
        apart = (smoothed[shift:] - raw[: len(raw) - shift]) ** 2
        errors.append(float(np.nanmean(apart)) if np.isfinite(apart).any() else np.inf)
    best = int(np.argmin(errors))
    if not 0 < best < len(errors) - 1:
        return float(best)
    low, middle, high = errors[best - 1 : best + 2]
    bend = low - 2 * middle + high  # of the parabola through the three
    return best + (0.5 * (low - high) / bend if bend > 0 else 0.0)


def _liveliest(raw: FloatArray) -> tuple[int, int]:
    """Return point and axis of what moves most, among points that are nearly always found."""
    found = np.isfinite(raw[..., 0]).mean(axis=0)
    known = np.where(np.isfinite(raw), raw, np.nan_to_num(raw).mean(axis=0))
    spread = known.std(axis=0) * (found >= 0.9 * found.max())[:, None]
    point, axis = np.unravel_index(int(spread.argmax()), spread.shape)
    return int(point), int(axis)


def _shown_rows(values: FloatArray) -> slice:
    """Return the rows around the quickest change."""
    changes = np.abs(np.diff(values))
    middle = int(np.argmax(np.nan_to_num(changes)))
    start = max(0, min(middle - _SHOWN_FRAMES // 2, len(values) - _SHOWN_FRAMES))
    return slice(start, start + _SHOWN_FRAMES)
