import os
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from made_up_people import write_run

from posemill.errors import PosemillError
from posemill.inspection.drawing.originals import Originals
from posemill.runs.reader import open_run
from tests.inspection.conftest import facts_of, write_film

has_bytes_as_names = pytest.mark.skipif(
    sys.platform in ("win32", "darwin"), reason="names are Unicode"
)


def write_pictures(folder, names):
    """Write pictures of different greys; return their paths as Python spells them."""
    folder.mkdir(parents=True)
    for number, name in enumerate(names):
        _, data = cv2.imencode(".png", np.full((48, 64, 3), 50 * number, np.uint8))
        (folder / os.fsdecode(name)).write_bytes(data.tobytes())
    return tuple(str(folder / os.fsdecode(name)) for name in names)


def stored(clip, folder):
    """Return the clip as a run gives it back."""
    return next(open_run(write_run(folder, clip)).clips())


def expect_all(originals, clip):
    """Return the frames of a clip, all of which must be found."""
    frames = [frame for _, frame in originals.frames(clip, range(len(clip)))]
    assert (originals.num_read, originals.first_reason) == (len(clip), "")
    return frames


NAMES = [b"bild\xff1.png", b"bild\\xff2.png", "bär3.png".encode()]


@has_bytes_as_names
@pytest.mark.parametrize("folder", [b"plain", b"b\xfcrger", b"text\\xfc"])
def test_pictures_with_names_that_are_not_utf8_are_found(make_clip, tmp_path, folder):
    paths = write_pictures(tmp_path / os.fsdecode(folder) / "a", NAMES)
    clip = stored(make_clip(3, clip_id="a", image_paths=paths), tmp_path / "run")
    assert clip.image_paths[0].endswith(r"a/bild\xff1.png")
    originals = Originals(facts_of(tmp_path))
    assert [int(frame.mean()) for frame in expect_all(originals, clip)] == [0, 50, 100]


@has_bytes_as_names
def test_such_pictures_are_found_below_the_new_root_of_a_moved_dataset(make_clip, tmp_path):
    old = tmp_path / os.fsdecode(b"alt\xfc")
    paths = write_pictures(old / "x", NAMES)
    clip = stored(make_clip(3, clip_id="other", image_paths=paths), tmp_path / "run")
    old.rename(tmp_path / "new")
    originals = Originals(facts_of(old), moved_to=tmp_path / "new")
    expect_all(originals, clip)


@has_bytes_as_names
def test_videos_below_a_root_whose_name_is_not_utf8_are_found(make_clip, tmp_path):
    write_film(tmp_path / os.fsdecode(b"filme\xfc") / "a.mp4", [0] * 2)
    # As a manifest says it.
    originals = Originals({"source": {"path": str(tmp_path / r"filme\xfc"), "layout": "videos"}})
    expect_all(originals, make_clip(2, clip_id="a"))


def test_a_picture_and_a_folder_of_originals_that_are_gone_are_said(make_clip, tmp_path):
    with pytest.raises(PosemillError, match=r"originals=.*nowhere.*: no such file or folder"):
        Originals(moved_to=tmp_path / "nowhere")
    clip = make_clip(1, image_paths=(str(tmp_path / r"bild\xff.png"),))
    originals = Originals(facts_of(tmp_path))
    assert list(originals.frames(clip, [0])) == [(0, None)]
    assert "missing: no such file" in originals.first_reason


DEEP = Path("PH/features/frames/train/a")  # a clip's folder deep below the root, as of PHOENIX


@pytest.mark.parametrize("started_in", [".", "sub", "PH", "PH/features"])
def test_pictures_with_relative_paths_are_found_from_anywhere(
    make_clip, tmp_path, monkeypatch, started_in
):
    write_pictures(tmp_path / DEEP, NAMES[1:])
    (tmp_path / "sub").mkdir()
    root = Path(os.path.relpath(tmp_path / "PH", tmp_path / started_in))  # as a user types it
    inside = Path(*DEEP.parts[1:])
    relative = tuple(str(root / inside / os.fsdecode(name)) for name in NAMES[1:])
    clip = make_clip(2, clip_id="a", split="train", image_paths=relative)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    originals = Originals(facts_of(tmp_path / "PH"))
    expect_all(originals, clip)
    (tmp_path / "PH").rename(tmp_path / "new")
    moved = Originals(facts_of(tmp_path / "PH"), moved_to=tmp_path / "new")
    expect_all(moved, clip)


def test_of_two_datasets_with_the_same_names_the_right_one_is_taken(make_clip, tmp_path):
    for name, greys in (("one", [b"1.png"]), ("two", [b"0.png", b"1.png"])):
        write_pictures(tmp_path / name / "train" / "a", greys)
    originals = Originals(
        {"source": {"inputs": [{"manifest": facts_of(tmp_path / name)} for name in ("one", "two")]}}
    )
    clip = make_clip(1, clip_id="a", split="train", image_paths=("two/train/a/1.png",))
    ((_, frame),) = originals.frames(clip, [0])
    assert int(frame.mean()) == 50


@pytest.mark.parametrize(
    ("name", "clip_id"),
    [
        ("{tmp}/secret/1.png", "a"),
        ("{tmp}/data/../secret/1.png", "a"),
        ("../secret/1.png", "a"),
        ("1.png", "../secret"),
        ("x/1.png", "{tmp}/secret"),
    ],
)
def test_a_file_of_a_stranger_cannot_choose_which_pictures_are_opened(
    make_clip, tmp_path, name, clip_id
):
    write_pictures(tmp_path / "secret", [b"1.png"])
    (tmp_path / "data").mkdir()
    clip = make_clip(
        1, clip_id=clip_id.format(tmp=tmp_path), image_paths=(name.format(tmp=tmp_path),)
    )
    for originals in (
        Originals(),
        Originals(facts_of(tmp_path / "data")),
        Originals(moved_to=tmp_path / "data"),
    ):
        assert list(originals.frames(clip, [0])) == [(0, None)]
        assert "by originals" in originals.first_reason or "missing" in originals.first_reason


@pytest.mark.parametrize("moved", [False, True])
def test_frames_are_read_by_the_decoder_the_run_was_made_with(
    make_clip, tmp_path, install_entry_points, moved
):
    site = install_entry_points({"posemill.decoders": {"negative": "negative_decoder:Negative"}})
    (site / "negative_decoder.py").write_text(
        "from posemill.decoders.video_pyav import PyavReader\n"
        "class Negative(PyavReader):\n"
        "    def read_frames(self, start_index=0, **more):\n"
        "        return (255 - frame for frame in super().read_frames(start_index, **more))\n"
    )
    write_film(tmp_path / "films" / "a.mp4", [40, 100])
    facts = {"source": {"path": str(tmp_path / "films"), "layout": "videos"},
             "options": {"decoder": "negative"}}  # fmt: skip
    merged = {"source": {"inputs": [{"manifest": facts}]}}
    originals = Originals(merged, moved_to=tmp_path / "films" if moved else None)
    frames = [frame for _, frame in originals.frames(make_clip(2, clip_id="a"), range(2))]
    assert [round(int(frame.mean()), -1) for frame in frames if frame is not None] == [220, 160]


def test_a_decoder_that_is_not_installed_is_the_reason_that_frames_are_gone(make_clip, tmp_path):
    write_film(tmp_path / "films" / "a.mp4", [40, 100])
    originals = Originals(facts_of(tmp_path / "films", "videos", "vhs"))
    list(originals.frames(make_clip(2, clip_id="a"), range(2)))
    assert originals.num_gone == 2
    assert "unknown decoder 'vhs'; known: pyav" in originals.first_reason


@pytest.mark.parametrize("kind", ["list", "picture"])
def test_pictures_of_a_list_and_a_single_picture_are_found(make_clip, tmp_path, kind):
    (path,) = write_pictures(tmp_path / "far" / "away", [b"1.png"])
    source, layout = Path(path), "pictures"
    if kind == "list":
        source, layout = tmp_path / "lists" / "clips.csv", "list"
        source.parent.mkdir()
        source.write_text(f"path\n{path}\n")
    originals = Originals(facts_of(source, layout))
    expect_all(originals, make_clip(1, clip_id="1", image_paths=(path,)))


@has_bytes_as_names
@pytest.mark.parametrize("follows", [True, False])
def test_a_link_that_leads_out_is_followed_where_that_is_allowed(make_clip, tmp_path, follows):
    (path,) = write_pictures(tmp_path / "far", [b"1.png"])
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "0.png").symlink_to(path)
    originals = Originals(facts_of(tmp_path / "data"), follows_links=follows)
    ((_, frame),) = originals.frames(make_clip(1, image_paths=("0.png",)), [0])
    assert (frame is not None) is follows
