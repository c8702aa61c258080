"""What every row of `FORMATS` must do."""

from __future__ import annotations

import dataclasses
import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
from format_clips import assert_same, make_clip, make_clips

from posemill.errors import ConfigError, FormatError
from posemill.formats import FORMATS, detect_format, get_format
from posemill.formats.shared.contract import ANY, Format, Recipe
from posemill.records import PoseClip
from posemill.skeletons import SKELETON_NAMES

# Fields a format does not keep, by its declared losses; `exact` formats keep all.
ALL_BUT_POINTS = ("frame_indices", "sizes_wh", "label", "fps", "extra")
KEPT: dict[str, tuple[float, tuple[str, ...]]] = {
    "npz": (0, ()),
    "pkl": (0, ("scores", *ALL_BUT_POINTS)),
    "txt": (2e-6, ("z", "scores")),
    "openpose": (2e-6, ("z",)),
    "openpose-file": (2e-6, ("z",)),
    "coco": (2e-6, ("z",)),
    "pose": (1e-6, ()),
    "hdf5": (0, ()),
    "webdataset": (0, ()),
    "parquet": (0, ()),
    "huggingface": (0, ()),
    "pyskl": (1e-6, ("z", "frame_indices", "image_paths", "fps", "extra")),
}


@pytest.fixture(params=list(FORMATS))
def form(request: pytest.FixtureRequest) -> Format:
    return get_format(request.param)


def usual_clips(form: Format) -> list[PoseClip]:
    return make_clips(form.layouts[0] if form.layouts else "holistic-143")


def layouts_of(form: Format) -> list[str]:
    """Return the skeletons it can hold, the usual one first."""
    more = SKELETON_NAMES if ANY in form.layouts else ()
    return list(dict.fromkeys(name for name in (*form.layouts, *more) if name != ANY))


def out_of(form: Format, folder: Path) -> Path:
    return folder / f"out{form.suffix}"


def without(clip: PoseClip, lost: tuple[str, ...]) -> PoseClip:
    """Return the clip as it is after a round trip that loses these fields."""
    frames = len(clip)
    points, scores = clip.points, clip.scores
    if "z" in lost:
        points = np.concatenate([points[..., :2], 0 * points[..., :1]], axis=2)
    if "scores" in lost:
        scores = clip.mask.astype(np.float32)
    defaults = {
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
    return {(clip.split, clip.clip_id): clip for clip in clips}


def test_a_round_trip_gives_the_clips_back_but_for_the_declared_losses(form, tmp_path) -> None:
    tolerance, lost = KEPT[form.name]
    gone = [loss for loss in form.losses if loss != "clips without frames"]
    assert bool(gone) == bool(lost or tolerance)
    clips = usual_clips(form)
    summary = form.write(iter(clips), out_of(form, tmp_path), recipe=Recipe())
    assert (summary.num_clips, summary.num_frames) == (4, 16)
    assert summary.splits == {"train": 2, "dev": 2}
    back = by_id(list(form.read(out_of(form, tmp_path))))
    assert len(back) == len(clips)
    for key, clip in by_id(clips).items():
        assert_same(without(clip, lost), back[key], tolerance=tolerance)


@pytest.mark.parametrize("name", ["a\nb", "\\xff\\xfe", "a\\b/c", "\udcff\udcfe", "a\rb", " a "])
def test_strange_names_go_round_or_are_refused_with_what_to_do(form, tmp_path, name) -> None:
    paths = tuple(f"{name}/{index}.png" for index in range(6))
    clip = make_clip(1, skeleton=form.layouts[0], clip_id=name, image_paths=paths)
    if name == "\udcff\udcfe" and form.name in ("hdf5", "parquet", "huggingface"):
        with pytest.raises(FormatError, match=r"expected Unicode, got .*run of it first"):
            form.write([clip], out_of(form, tmp_path), recipe=Recipe())
        return
    form.write([clip], out_of(form, tmp_path), recipe=Recipe())
    (back,) = form.read(out_of(form, tmp_path))
    assert back.clip_id == name
    assert back.image_paths in (paths, ())


def test_a_name_with_half_a_character_is_refused(tmp_path) -> None:
    np.savez(tmp_path / "a.npz", keypoints=np.ones((1, 18, 2)), video_ids=np.array(["\ud800"]))
    with pytest.raises(FormatError, match=r"'\\ud800' is no name: it holds half a character"):
        list(get_format("npz").read(tmp_path / "a.npz"))


def test_what_was_written_is_recognised(form, tmp_path) -> None:
    form.write(usual_clips(form), out_of(form, tmp_path), recipe=Recipe())
    assert detect_format(out_of(form, tmp_path)).name == form.name


def test_the_recipe_is_in_the_file(form, tmp_path) -> None:
    recipe = Recipe(interpolate=7)
    path = out_of(form, tmp_path)
    form.write(usual_clips(form), path, recipe=recipe)
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    content = b"".join(file.read_bytes() for file in files)
    plain = content.replace(b"\0", b"").replace(b"\\", b"")  # UTF-32 in npz, JSON in JSON
    assert b'"interpolate": 7' in plain


def test_a_reader_gives_back_what_was_done_to_the_clips(form, tmp_path) -> None:
    how = "none" if form.has_pixels else "bbox"
    clips = [dataclasses.replace(clip, normalized=how, interpolated=3)
             for clip in usual_clips(form)]  # fmt: skip
    form.write(clips, out_of(form, tmp_path), recipe=Recipe())
    back = list(form.read(out_of(form, tmp_path)))
    assert {(clip.normalized, clip.interpolated) for clip in back} == {(how, 3)}


def test_normalised_clips_do_not_go_into_pixels_or_with_others(form, tmp_path) -> None:
    first, *others = usual_clips(form)
    first = dataclasses.replace(first, normalized="shoulders")
    message = (
        "pixels of the picture, but clip 'clip_1' is normalised by 'shoulders'"
        if form.has_pixels
        else "by 'none', the clips before it by 'shoulders'; one file holds one normalisation"
    )
    with pytest.raises(FormatError, match=message):
        form.write([first, *others], out_of(form, tmp_path), recipe=Recipe())
    assert list(tmp_path.iterdir()) == []


def test_no_clips_are_an_error_and_leave_nothing(form, tmp_path) -> None:
    with pytest.raises(FormatError, match=r"out.*no clips to write; expected at least one"):
        form.write(iter([]), out_of(form, tmp_path), recipe=Recipe())
    assert list(tmp_path.iterdir()) == []


def test_a_failing_stream_leaves_the_old_file_as_it_was(form, tmp_path) -> None:
    path = out_of(form, tmp_path)
    clips = usual_clips(form)
    form.write(clips, path, recipe=Recipe())
    before = sorted((p, p.stat().st_size) for p in tmp_path.rglob("*"))

    def failing():
        yield clips[0]
        raise RuntimeError("the power is gone")

    with pytest.raises(RuntimeError, match="power"):
        form.write(failing(), path, recipe=Recipe())
    assert sorted((p, p.stat().st_size) for p in tmp_path.rglob("*")) == before
    assert len(list(form.read(path))) == 4


def test_writing_again_replaces_the_old_one(form, tmp_path) -> None:
    path = out_of(form, tmp_path)
    clips = usual_clips(form)
    form.write(clips, path, recipe=Recipe())
    form.write(clips[:1], path, recipe=Recipe())
    assert [clip.clip_id for clip in form.read(path)] == ["clip_1"]
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_two_skeletons_do_not_go_into_one_file(form, tmp_path) -> None:
    usual, *others = layouts_of(form)
    if others:
        clips = [make_clip(1, skeleton=s) for s in (usual, others[0])]
    else:
        clips = [make_clip(1, skeleton=next(s for s in SKELETON_NAMES if s != usual))]
    with pytest.raises(FormatError, match=r"one file holds one skeleton|holds .*, clip 'clip_1'"):
        form.write(clips, out_of(form, tmp_path), recipe=Recipe())


def test_infinity_is_refused(form, tmp_path) -> None:
    clip = usual_clips(form)[0]
    clip.points[0, 0] = np.inf
    with pytest.raises(FormatError, match="clip 'clip_1' holds infinity"):
        form.write([clip], out_of(form, tmp_path), recipe=Recipe())


def test_every_layout_it_names_goes_round(form, tmp_path) -> None:
    tolerance, lost = KEPT[form.name]
    for index, skeleton in enumerate(layouts_of(form)):
        clip = make_clip(5, skeleton=skeleton)
        path = tmp_path / f"{index}{form.suffix}"
        form.write([clip], path, recipe=Recipe())
        (back,) = form.read(path)
        if back.skeleton_name == skeleton:
            assert_same(without(clip, lost), back, tolerance=tolerance)


def test_clips_are_read_one_by_one(form, tmp_path) -> None:
    form.write(usual_clips(form), out_of(form, tmp_path), recipe=Recipe())
    stream = form.read(out_of(form, tmp_path))
    assert len(list(itertools.islice(stream, 1))) == 1
    stream.close()


def test_a_missing_file_is_named(form, tmp_path) -> None:
    path = tmp_path / f"nothing{form.suffix}"
    with pytest.raises(FormatError, match=r"nothing.*: no such file or folder"):
        list(form.read(path))
    with pytest.raises(FormatError, match=r"nothing.*: no such file or folder"):
        detect_format(path)


def test_an_unknown_format_or_setting_is_named(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"unknown format 'x'; known: npz"):
        get_format("x")
    with pytest.raises(ConfigError, match=r"unknown skeleton '7'; known: 543, 143"):
        Recipe(layout="7")
    with pytest.raises(ConfigError, match=r"unknown normalize 'hips'; known: none, shoulders"):
        Recipe(normalize="hips")
    with pytest.raises(ConfigError, match=r"unknown fill 'x'; known: nan, zero, interpolate"):
        Recipe(fill="x")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="interpolate: expected 0 or more frames, got -1"):
        Recipe(interpolate=-1)
    (tmp_path / "x.bin").write_bytes(b"?")
    with pytest.raises(FormatError, match=r"x\.bin: none of the formats known: npz"):
        detect_format(tmp_path / "x.bin")


class OutsideFormat:
    name = "outside"

    def sniff(self, path: Path) -> bool:
        return path.suffix == ".outside"


def test_another_package_can_bring_a_format(tmp_path, monkeypatch, install_entry_points) -> None:
    monkeypatch.setitem(sys.modules, "outside_package", sys.modules[__name__])
    install_entry_points({"posemill.formats": {"outside": "outside_package:OutsideFormat"}})
    (tmp_path / "a.outside").write_text("")
    assert get_format("outside").name == "outside"
    assert detect_format(tmp_path / "a.outside").name == "outside"
    with pytest.raises(ConfigError, match=r"unknown format 'x'; known: npz, .*, outside"):
        get_format("x")
