"""A clip as Python users look at it: as a table, as a picture, on the screen."""

import sys
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from PIL import Image

import posemill
from posemill.errors import MissingExtraError, PosemillError


@pytest.fixture
def run(tmp_path):
    """A run of one clip of 20 red pictures, by the fake engine."""
    folder = tmp_path / "tree" / "train" / "a"
    folder.mkdir(parents=True)
    for index in range(20):
        picture = np.full((48, 64, 3), (0, 0, 200), np.uint8)  # blue, green, red
        assert cv2.imwrite(str(folder / f"{index:02}.png"), picture)
    return posemill.extract(
        tmp_path / "tree", tmp_path / "run", engine="fake", executor="serial"
    ).run


def redness(picture):
    """Return the share of pixels that are those of the original pictures."""
    return float((np.abs(picture.astype(int) - (200, 0, 0)).max(-1) < 30).mean())


def test_a_clip_is_a_tidy_table_of_points_and_a_wide_one_of_frames(run):
    pytest.importorskip("pandas")
    clip = run["a"]
    table = clip.to_pandas()
    assert list(table) == ["frame_index", "part", "point", "x", "y", "z", "score"]
    assert len(table) == 20 * 543
    nose = table[table["point"] == "nose"]
    assert nose["frame_index"].tolist() == list(range(20))
    np.testing.assert_array_equal(nose[["x", "y", "z"]], clip.points[:, 0])
    np.testing.assert_array_equal(nose["score"], clip.scores[:, 0])
    hand = table[(table["part"] == "right_hand") & (table["frame_index"] == 7)]
    np.testing.assert_array_equal(hand[["x", "y", "z"]], clip.part("right_hand")[7])
    assert hand["point"].iloc[0] == "right_hand_wrist"
    table = clip.to_pandas(wide=True)
    assert (table.shape, table.index.name) == ((20, 543 * 4), "frame_index")
    np.testing.assert_array_equal(table["nose_y"], clip.points[:, 0, 1])
    np.testing.assert_array_equal(table["right_hand_pinky_tip_score"], clip.scores[:, -1])


def test_a_table_without_pandas_says_what_to_install(run, monkeypatch):
    clip = run["a"]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"needs 'pandas', .* run: pip install pandas"):
        clip.to_pandas()


def test_a_frame_is_drawn_on_its_original(run, tmp_path):
    clip = run["a"]
    picture = clip.plot(-1)
    assert (picture.dtype, picture.shape[2]) == (np.uint8, 3)
    assert redness(picture) > 0.3
    np.testing.assert_array_equal(picture, next(iter(run)).plot(19))
    (tmp_path / "tree").rename(tmp_path / "moved")
    assert redness(clip.plot(0)) == 0
    assert redness(clip.plot(0, originals=tmp_path / "moved")) > 0.3
    assert redness(clip.plot(0, originals=str(tmp_path / "moved"))) > 0.3
    # A run that was moved, too: its clips are drawn on a blank canvas.
    (tmp_path / "run").rename(tmp_path / "run2")
    assert redness(clip.plot(0)) == 0


def test_without_a_frame_it_is_a_sheet_of_twelve_and_what_cannot_be_drawn_is_said(run, tmp_path):
    clip = run["a"]
    sheet = clip.plot()
    assert sheet.shape[0] * sheet.shape[1] > 12 * 320 * 240
    assert redness(sheet) > 0.3
    assert redness(posemill.plot(clip.as_skeleton("holistic-143"))) > 0.3
    with pytest.raises(IndexError, match="clip 'a' has 20 frames; there is none at 20"):
        clip.plot(20)
    with pytest.raises(PosemillError, match=r"nowhere.*: no such file or folder"):
        clip.plot(originals=tmp_path / "nowhere")
    empty = posemill.PoseClip(np.zeros((0, 18, 3), np.float32), np.zeros((0, 18), np.float32),
                              np.zeros((0, 2), np.int32), "openpose-18", "none")  # fmt: skip
    with pytest.raises(ValueError, match="clip 'none' has no frames to draw"):
        empty.plot()


def test_show_writes_a_file_displays_in_a_notebook_or_opens_the_viewer(run, tmp_path, monkeypatch):
    clip = run["a"]
    clip.show(3, path=str(tmp_path / "new" / "a.png"))
    written = cv2.imread(str(tmp_path / "new" / "a.png"))[..., ::-1]
    np.testing.assert_array_equal(written, clip.plot(3))
    shown = []
    with monkeypatch.context() as patch:
        shell = SimpleNamespace(kernel="a kernel")
        patch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
        display = SimpleNamespace(Image=lambda data: data, display=shown.append)
        patch.setitem(sys.modules, "IPython.display", display)
        clip.show(0)
    decoded = cv2.imdecode(np.frombuffer(shown.pop(), np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
    np.testing.assert_array_equal(decoded, clip.plot(0))
    monkeypatch.setattr(Image.Image, "show", lambda self: shown.append(np.asarray(self)))
    monkeypatch.setattr(sys, "platform", "linux")
    for screen in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(screen, raising=False)
    with pytest.raises(PosemillError, match=r"no screen here; write a file, clip\.show\(path="):
        clip.show()
    monkeypatch.setenv("DISPLAY", ":0")
    clip.show()
    np.testing.assert_array_equal(shown[0], clip.plot())
