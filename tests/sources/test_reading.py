"""Frames of a part of a clip: from where to where, at which step, and why no more come."""

import dataclasses
import os

import numpy as np
import pytest

from posemill.errors import DecodeError
from posemill.records import Clip
from posemill.sources import reading
from posemill.sources.reading import (
    SLOW_STEP_SECONDS,
    ClipReader,
    End,
    Listing,
    Part,
    attempt,
    read_clip,
)


def plain(content):
    """Reason and sentence of an error; what is none stays as it is."""
    is_error = isinstance(content, DecodeError)
    return (content.reason, str(content)) if is_error else content


VIDEO = Clip("a", "a.mp4", "video", num_frames=6)


class MadeUpVideo:
    """A video of so many frames, numbers all; the frame at `damaged` cannot be decoded."""

    def __init__(self, num_frames=6, *, damaged=None, counted=None):
        self.length, self.damaged, self.counted = num_frames, damaged, counted
        self.fps, self.num_frames, self.is_closed = 12.5, None, False

    def read_frames(self, start, stride=1):
        for index in range(start, self.length, stride):
            if index == self.damaged:
                raise DecodeError(f"damaged at {index}", reason="truncated")
            yield index

    def count_frames(self):
        if self.counted is None:
            raise DecodeError("no count")
        return self.counted

    def close(self):
        self.is_closed = True


@pytest.fixture
def steps():
    """Every step a reader said it is at."""
    return []


@pytest.fixture
def read(monkeypatch, steps):
    """Reads a part of a made-up video: (frames, why no more came)."""

    def run(video, clip=VIDEO, **part):
        monkeypatch.setattr(reading, "open_video", lambda *_, **__: video)
        reader = ClipReader(clip, on_step=lambda *step: steps.append(step))
        items = list(reader.read(Part(**part)))
        assert video.is_closed
        if items and isinstance(items[-1], End):
            return items[:-1], items[-1]
        return items, None

    return run


def test_a_step_gives_its_result_or_a_reason():
    def fail(error):
        raise error

    assert attempt(lambda: 7) == 7
    damaged = DecodeError("x.png: cut off", reason="truncated")
    assert plain(attempt(lambda: fail(damaged))) == ("truncated", "x.png: cut off")
    failed = attempt(lambda: fail(ValueError("no")))
    assert plain(failed) == ("unexpected ValueError", "ValueError: no")
    with pytest.raises(KeyboardInterrupt):
        attempt(lambda: fail(KeyboardInterrupt()))


def test_a_video_is_opened_with_the_part_of_it_that_is_wanted(monkeypatch):
    asked = []
    monkeypatch.setattr(
        reading, "open_video", lambda *args, **named: asked.append((args, named)) or MadeUpVideo()
    )
    clip = dataclasses.replace(VIDEO, start_seconds=1.5, end_seconds=2.5)
    list(ClipReader(clip, "opencv", target_size=96).read())
    options = {"decoder": "opencv", "start_seconds": 1.5, "end_seconds": 2.5, "target_size": 96}
    assert asked == [(("a.mp4",), options)]


def test_the_next_videos_are_fetched_ahead(monkeypatch):
    listing, asked = Listing(), []
    monkeypatch.setattr(listing.scratch, "ahead", asked.extend)
    monkeypatch.setattr(reading, "open_video", lambda *_, **__: MadeUpVideo())
    following = [Clip("b", "s3://x/b.mp4", "video", version="1"), Clip("c", "s3://x/c", "frames")]
    list(ClipReader(VIDEO, listing=listing, next_clips=following).read())
    assert asked == [("s3://x/b.mp4", "1", None)]


def test_a_part_in_the_middle_may_take_longer_to_get_there(read, steps):
    items, end = read(MadeUpVideo(), start=2, stop=4)
    assert ([item.frame_index for item in items], end) == ([2, 3], None)
    assert steps == [(2, 0.0), (2, SLOW_STEP_SECONDS), (3, 0.0)]


@pytest.mark.parametrize("known", [6, None])
def test_a_video_that_cannot_be_opened_ends_before_its_first_frame(monkeypatch, known):
    def refuse(*_, **__):
        raise DecodeError("a.mp4: empty", reason="empty file")

    monkeypatch.setattr(reading, "open_video", refuse)
    (end,) = ClipReader(dataclasses.replace(VIDEO, num_frames=known)).read()
    assert (plain(end.failed), *end[1:]) == (("empty file", "a.mp4: empty"), known, False)


@pytest.mark.parametrize(
    ("known", "counted", "total"),
    [(6, None, 6), (None, None, 4), (None, 2, 4), (None, 4, 4), (None, 5, 5), (None, 9, 9)],
)
def test_damage_ends_a_video_of_as_many_frames_as_can_be_counted(read, known, counted, total):
    clip = dataclasses.replace(VIDEO, num_frames=known)
    items, end = read(MadeUpVideo(damaged=3, counted=counted), clip)
    assert [item.frame_index for item in items] == [0, 1, 2]
    assert (plain(end.failed), *end[1:]) == (("truncated", "damaged at 3"), total, True)


def test_frames_that_crashed_workers_are_lost_or_end_the_video(read):
    items, end = read(MadeUpVideo(), skip={1: "died twice"}, give_up=(3, "died thrice"))
    assert [plain(item.content) for item in items] == [0, ("crashed the worker", "died twice"), 2]
    assert (plain(end.failed), *end[1:]) == (("crashed the worker", "died thrice"), 6, True)
    items, end = read(MadeUpVideo(), give_up=(6, "behind the end"), stop=6)
    assert (len(items), end) == (6, None)


def test_a_video_that_ends_too_early_says_so(read, tmp_path):
    items, end = read(MadeUpVideo(4))
    assert len(items) == 4
    failed = ("ends too early", "the file ends after 4 of 6 frames")
    assert (plain(end.failed), *end[1:]) == (failed, 6, True)
    assert read(MadeUpVideo(4), stop=4)[1] is None
    assert read(MadeUpVideo(4), stop=5)[1].failed.reason == "ends too early"
    # A part that ends behind what was known of the clip: nothing says how many there are.
    assert read(MadeUpVideo(4), dataclasses.replace(VIDEO, num_frames=None), stop=5)[1] is None
    # One at a URI is counted when it is here.
    (tmp_path / "a.mp4").touch()
    there = Clip("a", f"file://{tmp_path}/a.mp4", "video")
    items, end = read(MadeUpVideo(4, counted=6), there)
    assert (len(items), end.failed.reason, end.total) == (4, "ends too early", 6)


@pytest.mark.parametrize(("numbers", "got"), [([0, 2, 4], [0, 2, 4]), ([1, 2, 5, 9], [1, 2, 5]),
                          ([0, 4, 10], [0, 4]), ([3], [3])])  # fmt: skip
def test_frames_are_read_by_their_numbers(monkeypatch, numbers, got):
    monkeypatch.setattr(reading, "open_video", lambda *_, **__: MadeUpVideo())
    clip = dataclasses.replace(VIDEO, num_frames=None)
    frames = list(read_clip(clip, numbers=np.array(numbers)))
    assert [(frame.frame_index, frame.content) for frame in frames] == [(n, n) for n in got]


@pytest.fixture
def folder(tmp_path, make_tree):
    make_tree(tmp_path, *(f"a/{index:04d}.png" for index in range(4)))
    return tmp_path / "a"


def read_pictures(folder, steps=None, *, num_frames=4, **part):
    clip = Clip("a", str(folder), "frames", num_frames=num_frames)
    seen = [] if steps is None else steps
    return list(ClipReader(clip, on_step=lambda *step: seen.append(step)).read(Part(**part)))


@pytest.mark.parametrize(
    ("num_frames", "start", "stop", "indices"),
    [(4, 1, 3, [1, 2]), (4, 1, 9, [1, 2, 3]), (3, 0, None, [0, 1, 2]), (None, 2, None, [2, 3]),
     (0, 0, None, [])],
)  # fmt: skip
def test_a_part_ends_where_it_or_its_clip_does(folder, num_frames, start, stop, indices):
    items = read_pictures(folder, num_frames=num_frames, start=start, stop=stop)
    assert [item.frame_index for item in items] == indices


def test_pictures_that_are_gone_are_lost_one_by_one_and_a_folder_that_is_gone_at_once(
    folder, tmp_path
):
    (folder / "0003.png").unlink()
    gone = ("missing", "the folder has 3 of 5 frames left")
    lost = [(*item[:2], plain(item.content)) for item in read_pictures(folder, num_frames=5)[3:]]
    assert lost == [(3, str(folder), gone), (4, str(folder), gone)]
    (end,) = read_pictures(tmp_path / "gone", start=1)
    assert (end.total, end.is_open) == (4, False)


def test_pictures_that_crashed_workers_are_not_read_again(folder, steps):
    items = read_pictures(folder, steps, skip={1: "died"}, give_up=(3, "died"))
    crashed = ("crashed the worker", "died")
    assert [plain(items[index].content) for index in (1, 3)] == [crashed, crashed]
    assert [index for index, _ in steps] == [0, 0, 2]


def test_a_folder_is_listed_once_and_another_anew(monkeypatch):
    listed = []
    monkeypatch.setattr(reading, "list_frames", lambda clip: listed.append(clip) or {clip.path: 0})
    listing = Listing()
    first, second = Clip("a", "first", "frames"), Clip("b", "second", "frames")
    loose = dataclasses.replace(first, kind="pictures")
    for clip in (first, first, second, first, loose):
        assert listing.entries_of(clip) == {clip.path: 0}
    assert listed == [first, second, first, loose]


def test_clips_at_a_uri_are_read_side_by_side(tmp_path, make_tree, monkeypatch):
    monkeypatch.setattr(reading, "_PICTURES_AHEAD", 1)
    make_tree(tmp_path, "a/1.png", "a/2.png", "b/1.png", "b/2.png")
    os.utime(tmp_path / "b" / "2.png", (1, 1))  # a name that both have, in another version
    listing = Listing()
    clips = [Clip(name, f"file://{tmp_path}/{name}", "frames") for name in "ab"]
    readers = [ClipReader(clip, listing=listing).read() for clip in clips]
    frames = [int(np.mean(item.content)) for pair in zip(*readers, strict=True) for item in pair]
    assert frames == [0, 2, 1, 3]
