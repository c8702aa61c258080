import os

import numpy as np
import pytest

from posemill.errors import DecodeError
from posemill.records import Clip
from posemill.sources import find_clips
from posemill.sources.reading import count_frames, list_frames, read_clip


def brightness(clip, **options):
    """Return index and mean of each frame, or the reason of its error."""
    return [
        (index, content.reason)
        if isinstance(content, DecodeError)
        else (index, round(float(np.mean(content))))
        for index, _, content in read_clip(clip, **options)
    ]


@pytest.mark.parametrize("layout", ["auto", "pictures"])
def test_a_bad_frame_is_an_error_in_its_place_and_the_rest_comes(tmp_path, make_tree, layout):
    folder = make_tree(tmp_path, *(f"a/{number}.png" for number in range(6))) / "a"
    (folder / "1.png").write_bytes(b"")
    (folder / "2.png").unlink()
    (folder / "2.png").symlink_to("nowhere")
    (folder / "4.png").write_text("no picture")
    (folder / "6.png").symlink_to("6.png")
    (folder / "notes.txt").symlink_to("notes.txt")
    os.mkfifo(folder / "7.png")
    clip = find_clips(tmp_path, layout=layout)[0]  # the other is `notes.txt`, perhaps a folder
    rest = [(4, "not an image"), (5, 5), (6, "broken link"), (7, "not a file")]
    assert brightness(clip) == [(0, 0), (1, "empty file"), (2, "broken link"), (3, 3), *rest]
    assert [path for _, path, _ in read_clip(clip)][1] == str(folder / "1.png")
    assert clip.num_frames == 8


def test_a_video_and_a_window_of_it_are_read(tmp_path, make_video):
    path = str(make_video(tmp_path / "a.mp4"))
    whole = brightness(Clip("a", path, "video"))
    assert [index for index, _ in whole] == list(range(10))
    window = Clip("a", path, "video", start_seconds=0.3, end_seconds=0.7)
    assert brightness(window) == list(enumerate(value for _, value in whole[3:7]))
    assert {path for _, path, _ in read_clip(window)} == {None}


def test_a_clip_at_a_uri_is_read_as_on_a_disk(tmp_path, make_tree, make_video):
    make_tree(tmp_path, "a/0.png", "a/1.png")
    (tmp_path / "a" / "1.png").write_bytes(b"")
    video = make_video(tmp_path / "b.mp4")
    picture = tmp_path / "a" / "0.png"
    for path, kind in ((tmp_path / "a", "frames"), (video, "video"), (picture, "pictures")):
        here = Clip("x", str(path), kind)
        assert brightness(Clip("x", f"file://{path}", kind)) == brightness(here)
    assert brightness(Clip("x", f"file://{tmp_path}/gone", "frames")) == [(0, "missing")]


def test_a_clip_that_cannot_be_opened_is_one_error(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    for name, kind, reason in [
        ("gone.mp4", "video", "missing"),
        ("gone", "frames", "missing"),
        ("gone.png", "pictures", "missing"),
        ("empty", "frames", "no frames"),
        ("empty", "pictures", "no frames"),
        ("file", "frames", "not a folder"),
    ]:
        assert brightness(Clip("x", str(tmp_path / name), kind)) == [(0, reason)], name


def test_frames_are_counted_without_decoding(tmp_path, make_tree, make_video):
    make_tree(tmp_path, "clip/1.png", "clip/2.png")
    mp4 = str(make_video(tmp_path / "a.mp4", 7))
    avi = str(make_video(tmp_path / "a.avi", 7))
    assert count_frames(Clip("x", "unused", "frames", num_frames=5)) == 5
    assert count_frames(Clip("x", str(tmp_path / "clip"), "frames")) == 2
    assert count_frames(Clip("x", mp4, "video")) == count_frames(Clip("x", avi, "video")) == 7
    assert count_frames(Clip("x", mp4, "video", start_seconds=0.5)) == 2
    assert count_frames(Clip("x", str(tmp_path / "gone.mp4"), "video")) is None
    with pytest.raises(ValueError, match="'x' is a video: it has no list of files"):
        list_frames(Clip("x", "a.mp4", "video"))
