"""What every format must do."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from posemill.errors import FormatError
from posemill.formats import detect_format, get_format
from posemill.formats.shared.contract import ANY, Format, Recipe
from posemill.records import PoseClip
from posemill.skeletons import SKELETON_NAMES, get_skeleton


def make_clip(
    seed: int,
    *,
    frames: int = 6,
    skeleton: str = "holistic-143",
    size_wh: tuple[int, int] = (640, 480),
    **fields: object,
) -> PoseClip:
    """Return a clip of random points in a picture, some parts missing in some frames."""
    rng = np.random.default_rng(seed)
    layout = get_skeleton(skeleton)
    points = rng.uniform(0.05, 0.95, (frames, layout.num_points, 3)).astype(np.float32)
    scores = rng.uniform(0.1, 1, points.shape[:2]).astype(np.float32)
    for index, part in enumerate(layout.parts):
        gone = rng.random(frames) < 0.3
        gone[index % max(frames, 1) : index % max(frames, 1) + 1] = False
        points[gone, part.start : part.stop] = np.nan
    scores[np.isnan(points[..., 0])] = 0
    chosen: dict[str, object] = {
        "clip_id": f"clip_{seed}",
        "split": "train",
        "image_paths": tuple(f"clip_{seed}/images{i + 1:04d}.png" for i in range(frames)),
        "label": f"SIGN {seed}",
        "fps": 25.0,
    }
    return PoseClip(
        points=points,
        scores=scores,
        sizes_wh=np.tile(np.array(size_wh, np.int32), (frames, 1)),
        skeleton_name=skeleton,
        **(chosen | fields),  # type: ignore[arg-type]
    )


def make_clips(skeleton: str = "holistic-143") -> list[PoseClip]:
    """Return four clips of two splits: ids with folders and dots, one without paths or label."""
    return [
        make_clip(1, skeleton=skeleton, extra={"signer": "ä", "takes": [1, 2]}),
        make_clip(
            2,
            skeleton=skeleton,
            clip_id="deep/er.name",
            frames=3,
            frame_indices=np.array([4, 6, 8], np.int64),
        ),
        make_clip(3, skeleton=skeleton, split="dev", image_paths=(), label=None, fps=None),
        make_clip(4, skeleton=skeleton, split="dev", frames=1, clip_id="one"),
    ]


def assert_same(one: PoseClip, other: PoseClip, *, tolerance: float = 0.0) -> None:
    """Compare two clips field by field."""
    for name in ("clip_id", "split", "skeleton_name", "label", "fps", "image_paths"):
        assert getattr(one, name) == getattr(other, name), name
    assert dict(one.extra) == dict(other.extra)
    np.testing.assert_array_equal(one.frame_indices, other.frame_indices)
    np.testing.assert_array_equal(one.sizes_wh, other.sizes_wh)
    np.testing.assert_array_equal(one.mask, other.mask)
    if tolerance:
        np.testing.assert_allclose(one.points, other.points, atol=tolerance, rtol=0)
        np.testing.assert_allclose(one.scores, other.scores, atol=tolerance, rtol=0)
    else:
        np.testing.assert_array_equal(one.points, other.points)
        np.testing.assert_array_equal(one.scores, other.scores)


def usual_clips(form: Format) -> list[PoseClip]:
    """Return clips of the usual skeleton of a format."""
    return make_clips(form.layouts[0] if form.layouts else "holistic-143")


def layouts_of(form: Format) -> list[str]:
    """Return the skeletons it can hold, the usual one first."""
    more = SKELETON_NAMES if ANY in form.layouts else ()
    return list(dict.fromkeys(name for name in (*form.layouts, *more) if name != ANY))


def out_of(form: Format, folder: Path) -> Path:
    """Return a path to write to."""
    return folder / f"out{form.suffix}"


def without(clip: PoseClip, lost: tuple[str, ...]) -> PoseClip:
    """Return the clip as it is after a round trip that loses these fields."""
    frames = len(clip)
    points, scores = clip.points, clip.scores
    if "z" in lost:
        points = np.concatenate([points[..., :2], 0 * points[..., :1]], axis=2)
    if "scores" in lost:
        scores = clip.mask.astype(np.float32)
    defaults: dict[str, Any] = {
        "label": None,
        "fps": None,
        "extra": {},
        "image_paths": (),
        "frame_indices": np.arange(frames),
        "sizes_wh": np.zeros((frames, 2), np.int32),
    }
    changes = {name: value for name, value in defaults.items() if name in lost}
    return dataclasses.replace(clip, points=points, scores=scores, **changes)


def by_id(clips: list[PoseClip]) -> dict[tuple[str, str], PoseClip]:
    """Return clips by split and id."""
    return {(clip.split, clip.clip_id): clip for clip in clips}


class FormatContract:
    """Subclass it as `TestX` with the format's name, and what a round trip changes.

    `lost` names fields of `PoseClip` that do not come back (`z`, `scores`, `label` …); `tolerance`
    is how far coordinates and scores may be off.
    """

    name: str = ""
    tolerance: float = 0.0
    lost: tuple[str, ...] = ()

    @pytest.fixture
    def form(self) -> Format:
        return get_format(self.name)

    def test_a_round_trip_gives_the_clips_back_but_for_the_declared_losses(
        self, form: Format, tmp_path: Path
    ) -> None:
        tolerance, lost = self.tolerance, self.lost
        gone = [loss for loss in form.all_losses if loss != "clips without frames"]
        assert bool(gone) == bool(lost or tolerance)
        clips = usual_clips(form)
        summary = form.write(iter(clips), out_of(form, tmp_path), recipe=Recipe())
        assert (summary.num_clips, summary.num_frames) == (4, 16)
        assert summary.splits == {"train": 2, "dev": 2}
        back = by_id(list(form.read(out_of(form, tmp_path))))
        assert len(back) == len(clips)
        for key, clip in by_id(clips).items():
            assert_same(without(clip, lost), back[key], tolerance=tolerance)

    def test_what_was_written_is_recognised(self, form: Format, tmp_path: Path) -> None:
        form.write(usual_clips(form), out_of(form, tmp_path), recipe=Recipe())
        assert detect_format(out_of(form, tmp_path)).name == form.name

    def test_the_recipe_is_in_the_file(self, form: Format, tmp_path: Path) -> None:
        recipe = Recipe(interpolate=7)
        path = out_of(form, tmp_path)
        form.write(usual_clips(form), path, recipe=recipe)
        files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
        content = b"".join(file.read_bytes() for file in files)
        # UTF-32 in npz, JSON in JSON, JSON in CSV
        plain = content.replace(b"\0", b"").replace(b"\\", b"").replace(b'""', b'"')
        assert b'"interpolate": 7' in plain

    def test_a_reader_gives_back_what_was_done_to_the_clips(
        self, form: Format, tmp_path: Path
    ) -> None:
        how = "none" if form.has_pixels else "bbox"
        clips = [
            dataclasses.replace(clip, normalized=how, interpolated=3, smoothed="savgol")
            for clip in usual_clips(form)
        ]
        form.write(clips, out_of(form, tmp_path), recipe=Recipe())
        back = list(form.read(out_of(form, tmp_path)))
        done = {(clip.normalized, clip.interpolated, clip.smoothed) for clip in back}
        assert done == {(how, 3, "savgol")}

    def test_normalised_clips_do_not_go_into_pixels_or_with_others(
        self, form: Format, tmp_path: Path
    ) -> None:
        first, *others = usual_clips(form)
        first = dataclasses.replace(first, normalized="shoulders")
        message = (
            "pixels of the picture, but clip 'clip_1' is normalised by 'shoulders'"
            if form.has_pixels
            else "is 'none', the clips before it are 'shoulders'; one file holds one skeleton"
        )
        with pytest.raises(FormatError, match=message):
            form.write([first, *others], out_of(form, tmp_path), recipe=Recipe())
        assert list(tmp_path.iterdir()) == []

    def test_no_clips_are_an_error_and_leave_nothing(self, form: Format, tmp_path: Path) -> None:
        with pytest.raises(FormatError, match=r"out.*no clips to write; expected at least one"):
            form.write(iter([]), out_of(form, tmp_path), recipe=Recipe())
        assert list(tmp_path.iterdir()) == []

    def test_a_failing_stream_leaves_the_old_file_as_it_was(
        self, form: Format, tmp_path: Path
    ) -> None:
        path = out_of(form, tmp_path)
        clips = usual_clips(form)
        form.write(clips, path, recipe=Recipe())
        before = sorted((p, p.stat().st_size) for p in tmp_path.rglob("*"))

        def failing() -> Iterator[PoseClip]:
            yield clips[0]
            raise RuntimeError("the power is gone")

        with pytest.raises(RuntimeError, match="power"):
            form.write(failing(), path, recipe=Recipe())
        assert sorted((p, p.stat().st_size) for p in tmp_path.rglob("*")) == before
        assert len(list(form.read(path))) == 4

    def test_writing_again_replaces_the_old_one(self, form: Format, tmp_path: Path) -> None:
        path = out_of(form, tmp_path)
        clips = usual_clips(form)
        form.write(clips, path, recipe=Recipe())
        form.write(clips[:1], path, recipe=Recipe())
        assert [clip.clip_id for clip in form.read(path)] == ["clip_1"]
        assert [p.name for p in tmp_path.iterdir()] == [path.name]

    def test_two_skeletons_do_not_go_into_one_file(self, form: Format, tmp_path: Path) -> None:
        usual, *others = layouts_of(form)
        if others:
            clips = [make_clip(1, skeleton=s) for s in (usual, others[0])]
        else:
            clips = [make_clip(1, skeleton=next(s for s in SKELETON_NAMES if s != usual))]
        with pytest.raises(
            FormatError, match=r"one file holds one skeleton|holds .*, clip 'clip_1'"
        ):
            form.write(clips, out_of(form, tmp_path), recipe=Recipe())

    def test_infinity_is_refused(self, form: Format, tmp_path: Path) -> None:
        clip = usual_clips(form)[0]
        clip.points[0, 0] = np.inf
        with pytest.raises(FormatError, match="clip 'clip_1' holds infinity"):
            form.write([clip], out_of(form, tmp_path), recipe=Recipe())

    def test_every_layout_it_names_goes_round(self, form: Format, tmp_path: Path) -> None:
        tolerance, lost = self.tolerance, self.lost
        for index, skeleton in enumerate(layouts_of(form)):
            clip = make_clip(5, skeleton=skeleton)
            path = tmp_path / f"{index}{form.suffix}"
            form.write([clip], path, recipe=Recipe())
            (back,) = form.read(path)
            if back.skeleton_name == skeleton:
                assert_same(without(clip, lost), back, tolerance=tolerance)

    def test_clips_are_read_one_by_one(self, form: Format, tmp_path: Path) -> None:
        form.write(usual_clips(form), out_of(form, tmp_path), recipe=Recipe())
        stream = form.read(out_of(form, tmp_path))
        assert len(list(itertools.islice(stream, 1))) == 1
        stream.close()  # type: ignore[attr-defined]

    def test_a_missing_file_is_named(self, form: Format, tmp_path: Path) -> None:
        path = tmp_path / f"nothing{form.suffix}"
        with pytest.raises(FormatError, match=r"nothing.*: no such file or folder"):
            list(form.read(path))
        with pytest.raises(FormatError, match=r"nothing.*: no such file or folder"):
            detect_format(path)
