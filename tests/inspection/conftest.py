"""Made-up people: clips whose every point is known, for tests of drawing, quality and reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from posemill.inspection.drawing import fonts
from posemill.records import PoseClip
from posemill.skeletons import get_skeleton

# Where the body points of a person who stands in the middle are, as shares of width and height.
_BODY = {
    "nose": (0.5, 0.2),
    "left_eye": (0.53, 0.18), "right_eye": (0.47, 0.18),
    "left_ear": (0.56, 0.2), "right_ear": (0.44, 0.2),
    "mouth_left": (0.52, 0.24), "mouth_right": (0.48, 0.24),
    "left_shoulder": (0.65, 0.35), "right_shoulder": (0.35, 0.35),
    "left_elbow": (0.7, 0.5), "right_elbow": (0.3, 0.5),
    "left_wrist": (0.65, 0.6), "right_wrist": (0.35, 0.6),
    "left_hip": (0.6, 0.7), "right_hip": (0.4, 0.7),
    "left_knee": (0.6, 0.82), "right_knee": (0.4, 0.82),
    "left_ankle": (0.6, 0.94), "right_ankle": (0.4, 0.94),
    "neck": (0.5, 0.35),
}  # fmt: skip


def _stand(skeleton_name: str = "holistic-543") -> np.ndarray[Any, Any]:
    """Return `(keypoints, 3)` of one standing person, hands open, in shares of width and height."""
    skeleton = get_skeleton(skeleton_name)
    points = np.zeros((skeleton.num_points, 3), np.float32)
    for index, name in enumerate(skeleton.point_names):
        side = "left" if "left" in name else "right"
        if "_hand_" in name:
            start = skeleton.part(f"{side}_hand").start
            number = index - start
            finger, joint = divmod(number - 1, 4)
            x, y = _BODY[f"{side}_wrist"]
            if number:
                x += 0.02 * (finger - 2) * (1 if side == "left" else -1)
                y += 0.03 + 0.015 * joint
        elif name.startswith("face_"):
            angle = index * 2.4
            x, y = 0.5 + 0.06 * np.cos(angle), 0.2 + 0.08 * np.sin(angle)
        else:
            known = next((key for key in _BODY if name.startswith(key)), None)
            x, y = (
                _BODY[known]
                if known
                else _BODY[
                    f"{side}_ankle"
                    if "foot" in name or "heel" in name or "toe" in name
                    else f"{side}_wrist"
                ]
            )
        points[index, :2] = x, y
    return points


def _make_clip(
    num_frames: int = 10,
    *,
    skeleton_name: str = "holistic-543",
    missing: tuple[str, ...] = (),
    step: float = 0.002,
    size_wh: tuple[int, int] = (320, 240),
    **fields: Any,
) -> PoseClip:
    """Return a clip of a person who sways by `step` a frame, without the missing parts."""
    skeleton = get_skeleton(skeleton_name)
    sway = step * np.arange(num_frames, dtype=np.float32)
    points = np.repeat(_stand(skeleton_name)[None], num_frames, 0)
    points[..., 0] += sway[:, None]
    for name in missing:
        part = skeleton.part(name)
        points[:, part.start : part.stop] = np.nan
    scores = np.where(np.isnan(points[..., 0]), 0, 1).astype(np.float32)
    sizes = np.tile(np.array(size_wh, np.int32), (num_frames, 1))
    fields.setdefault("clip_id", "someone")
    return PoseClip(points, scores, sizes, skeleton_name=skeleton_name, **fields)


@pytest.fixture
def make_clip() -> Callable[..., PoseClip]:
    """A function that returns clips of a made-up person; see `_make_clip`."""
    return _make_clip


@pytest.fixture
def no_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any font."""
    monkeypatch.delenv("POSEMILL_FONT", raising=False)
    monkeypatch.setattr(fonts, "system_fonts", lambda: ())
    fonts._fonts.cache_clear()
    yield
    fonts._fonts.cache_clear()


@pytest.fixture
def small_font(no_fonts: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A font with ASCII, U+4F60 and U+597D, every letter a box of its own width; the only one."""
    builder_module = pytest.importorskip("fontTools.fontBuilder")
    pens = pytest.importorskip("fontTools.pens.ttGlyphPen")
    letters = {code: f"u{code:04X}" for code in [*range(32, 127), 0x4F60, 0x597D]}

    def box(width: int) -> Any:
        pen = pens.TTGlyphPen(None)
        pen.moveTo((50, 0))
        for corner in ((50, 700), (width, 700), (width, 0)):
            pen.lineTo(corner)
        pen.closePath()
        return pen.glyph()

    widths = {name: 300 + code % 97 for code, name in letters.items()}
    widths.update({".notdef": 900, letters[0x4F60]: 1000, letters[0x597D]: 800})
    builder = builder_module.FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder(list(widths))
    builder.setupCharacterMap(letters)
    builder.setupGlyf({name: box(width) for name, width in widths.items()})
    builder.setupHorizontalMetrics({name: (width + 100, 50) for name, width in widths.items()})
    builder.setupHorizontalHeader(ascent=900, descent=-200)
    builder.setupOS2()
    builder.setupPost()
    builder.setupNameTable({"familyName": "Boxes", "styleName": "Regular"})
    path = tmp_path / "boxes.ttf"
    builder.save(path)
    monkeypatch.setenv("POSEMILL_FONT", str(path))
    return path
