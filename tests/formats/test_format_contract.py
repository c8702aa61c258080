import os
import re
import sys
from dataclasses import replace

import numpy as np
import pytest

import posemill
from posemill.errors import ConfigError, FormatError
from posemill.formats import FORMATS, detect_format, get_format
from posemill.formats.shared.contract import Format, Recipe
from posemill.testing import FormatContract
from posemill.testing.formats import make_clip, out_of

# Fields a format does not keep, by its declared losses; `exact` formats keep all.
ALL_BUT_POINTS = ("frame_indices", "sizes_wh", "label", "fps", "extra")
KEPT = {
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
    "csv": (0, ()),
    "pyskl": (1e-6, ("z", "frame_indices", "image_paths", "fps", "extra")),
}


# Usual layout, number of losses, and what is True of each.
DECLARED = {
    "npz": (".npz", "holistic-143", 0, {"has_mask", "holds_world"}),
    "pkl": (".pkl", "holistic-143", 7, set()),
    "pyskl": (".pkl", "coco-133", 8, {"has_pixels", "holds_people"}),
    "txt": ("", "openpose-18", 3, {"has_pixels", "mirrors"}),
    "openpose": ("", "coco-133", 2, {"has_pixels", "holds_people", "mirrors"}),
    "openpose-file": (".json", "coco-133", 2, {"has_pixels", "holds_people"}),
    "coco": (".json", "coco-133", 2, {"has_pixels", "holds_people"}),
    "pose": ("", "holistic-543", 3, {"has_pixels", "holds_people"}),
    "hdf5": (".h5", "holistic-543", 0, {"has_mask", "needs_unicode"}),
    "webdataset": (".tar", "holistic-543", 0, {"has_mask"}),
    "parquet": (
        ".parquet",
        "holistic-543",
        1,
        {"has_mask", "holds_world", "holds_people", "needs_unicode"},
    ),
    "csv": (".csv", "holistic-143", 1, {"holds_world", "holds_people"}),
    "huggingface": ("", "holistic-543", 0, {"has_mask", "needs_unicode"}),
}


# A suite for each row of the table.
globals().update({
    f"Test{name.title()}": type(
        f"Test{name.title()}",
        (FormatContract,),
        {"name": name, "tolerance": KEPT[name][0], "lost": KEPT[name][1]},
    )
    for name in FORMATS
})  # fmt: skip


@pytest.fixture(params=list(FORMATS))
def form(request):
    return get_format(request.param)


def test_what_a_format_holds_is_declared(form):
    flags = {name for name in dir(form) if getattr(form, name) is True}
    assert (form.suffix, form.layouts[0], len(form.all_losses), flags) == DECLARED[form.name]


@pytest.mark.parametrize("name", ["a\nb", "\\xff\\xfe", "a\\b/c", "\udcff\udcfe", "a\rb", " a "])
def test_strange_names_go_round_or_are_refused_with_what_to_do(form, tmp_path, name):
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


def test_extra_that_is_not_json_is_refused_where_it_is_kept(form, tmp_path):
    clip = make_clip(1, skeleton=form.layouts[0], extra={"x": {1}})
    if "extra" in KEPT[form.name][1]:
        form.write([clip], out_of(form, tmp_path), recipe=Recipe())
        return
    with pytest.raises(FormatError, match="clip 'clip_1': extra cannot be written as JSON"):
        form.write([clip], out_of(form, tmp_path), recipe=Recipe())


def test_our_own_points_are_never_taken_for_pixels(form, tmp_path):
    if form.has_pixels:
        return
    clip = make_clip(1, skeleton=form.layouts[0], normalized="shoulders")
    clip.points[...] *= 100
    form.write([clip], out_of(form, tmp_path), recipe=Recipe())
    (back,) = form.read(out_of(form, tmp_path))
    np.testing.assert_array_equal(back.points, clip.points)


def test_a_nul_in_a_name_that_would_end_it_and_half_a_character_are_refused(tmp_path):
    for name in ("npz", "hdf5"):
        words = rf"'a.x00b' holds a NUL character, which {name} cannot"
        with pytest.raises(FormatError, match=words):
            get_format(name).write([make_clip(1, clip_id="a\0b")], tmp_path / "a", recipe=Recipe())
    np.savez(tmp_path / "a.npz", keypoints=np.ones((1, 18, 2)), video_ids=np.array(["\ud800"]))
    with pytest.raises(FormatError, match=r"'\\ud800' is no name: it holds half a character"):
        list(get_format("npz").read(tmp_path / "a.npz"))


def test_an_unknown_format_or_setting_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"unknown format 'x'; known: npz"):
        get_format("x")
    with pytest.raises(ConfigError, match=r"unknown skeleton '7'; known: 543, 143"):
        Recipe(layout="7")
    with pytest.raises(ConfigError, match=r"unknown normalize 'hips'; known: none, shoulders"):
        Recipe(normalize="hips")
    with pytest.raises(ConfigError, match=r"unknown fill 'x'; known: nan, zero, interpolate"):
        Recipe(fill="x")
    with pytest.raises(ConfigError, match="interpolate: expected 0 or more frames, got -1"):
        Recipe(interpolate=-1)
    for name in ("x.bin", "x"):
        (tmp_path / name).write_bytes(b"\xff?")
        with pytest.raises(FormatError, match=rf"{name}: none of the formats known: npz"):
            detect_format(tmp_path / name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes in folders are of Unix")
@pytest.mark.parametrize("name", ["a.npz", "a.pkl", "a.json", "a.h5", "a.parquet", "a.pose", "a"])
def test_a_pipe_is_refused_and_not_waited_on(name, tmp_path):
    os.mkfifo(tmp_path / name)
    message = f"^{re.escape(str(tmp_path / name))}: not a file: it is a pipe, a socket or a device;"
    with pytest.raises(FormatError, match=message):
        detect_format(tmp_path / name)
    for each in ("npz", "pkl", "coco", "csv"):
        with pytest.raises(FormatError, match=message):
            list(get_format(each).read(tmp_path / name))
    with pytest.raises(FormatError, match=message):
        posemill.open_npz(tmp_path / name)


def plain_clip(skeleton):
    """A clip that has nothing but points, whose depth is 0 and whose scores are 1."""
    clip = make_clip(1, frames=2, skeleton=skeleton, image_paths=(), label=None, fps=None)
    points = np.full_like(clip.points, 0.5)
    points[..., 2] = 0
    return replace(clip, points=points, scores=np.ones_like(clip.scores))


def test_what_is_told_as_lost_was_in_the_clips(form, tmp_path):
    clip = plain_clip(form.layouts[0])
    if form.name == "pkl":
        clip = replace(clip, sizes_wh=np.zeros_like(clip.sizes_wh))
    summary = form.write([clip], out_of(form, tmp_path), recipe=Recipe())
    assert summary.losses == form.losses
    full = make_clip(2, skeleton=form.layouts[0], frame_indices=np.arange(6) * 2, extra={"a": 1})
    full.scores[full.mask] *= 1e-7
    full.scores[:, ::2] = 0
    full.sizes_wh[1] += 8
    clips = [clip, full, make_clip(3, frames=0, skeleton=form.layouts[0])]
    (tmp_path / "full").mkdir()
    summary = form.write(clips, out_of(form, tmp_path / "full"), recipe=Recipe())
    assert sorted(summary.losses) == sorted(form.all_losses)
    for written, read in zip((clip, full), form.read(summary.path), strict=False):
        np.testing.assert_array_equal(read.mask, written.mask)


class OutsideFormat(Format):
    name = "outside"

    def sniff(self, path):
        return path.suffix == ".outside"


def test_another_package_can_bring_a_format(tmp_path, monkeypatch, install_entry_points):
    monkeypatch.setitem(sys.modules, "outside_package", sys.modules[__name__])
    install_entry_points({"posemill.formats": {"outside": "outside_package:OutsideFormat"}})
    (tmp_path / "a.outside").write_text("")
    assert get_format("outside").name == "outside"
    assert detect_format(tmp_path / "a.outside").name == "outside"
    with pytest.raises(ConfigError, match=r"unknown format 'x'; known: npz, .*, outside"):
        get_format("x")
