"""Frames of units: from where to where, at which place, and what is noted of the lost ones."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from posemill.errors import DecodeError
from posemill.jobs.extract import reading
from posemill.jobs.extract.messages import DECODING, Unit
from posemill.jobs.extract.reading import Failed, FrameReader, Lane, Listing, attempt
from posemill.records import Clip
from posemill.runs.events import Lost

VIDEO = Clip("a", "a.mp4", "video", num_frames=6)


class MadeUpReader:
    """A video of so many frames, numbers all; the frame at `damaged` cannot be decoded."""

    def __init__(self, num_frames=6, *, damaged=None, counted=None):
        self.num_frames, self.damaged, self.counted = num_frames, damaged, counted
        self.fps, self.is_closed = 12.5, False

    def read_frames(self, start):
        for index in range(start, self.num_frames):
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
def places():
    """Every place a reader said it is at."""
    return []


@pytest.fixture
def read(monkeypatch, places):
    """Reads the frames of a unit of a made-up video: (lane, what came)."""

    def run(made_up, clip=VIDEO, *, taken=0, **changes):
        monkeypatch.setattr(reading, "open_video", lambda *_, **__: made_up)
        unit = Unit(1, 1, clip, 0, None, 0, None, is_chain=False)
        unit = dataclasses.replace(unit, **changes)
        lane = Lane(unit, 3, unit.next_frame + taken, None)
        reader = FrameReader("pyav", lambda place, seconds: places.append((place, seconds)))
        return lane, list(reader.read(lane))

    return run


def test_a_step_gives_its_result_or_a_reason():
    def fail(error):
        raise error

    assert attempt(lambda: 7) == 7
    damaged = DecodeError("x.png: cut off", reason="truncated")
    assert attempt(lambda: fail(damaged)) == Failed("truncated", "x.png: cut off")
    assert attempt(lambda: fail(ValueError("no"))) == Failed(
        "unexpected ValueError", "ValueError: no"
    )
    with pytest.raises(KeyboardInterrupt):
        attempt(lambda: fail(KeyboardInterrupt()))


def test_a_frame_is_lost_alone_unless_told_otherwise():
    lane = Lane(Unit(1, 1, VIDEO, 0, None, 0, None, is_chain=False), 0, 0, None)
    lane.lose(4, Failed("why", "all"), path="p")
    lane.lose(None, Failed("why", "all"), path="p", num_frames=3)
    assert lane.lost == [Lost(4, 1, "p", "why", "all"), Lost(None, 3, "p", "why", "all")]


def test_a_video_is_opened_with_the_part_of_it_that_is_wanted(monkeypatch):
    asked = []
    monkeypatch.setattr(
        reading, "open_video", lambda *args, **named: asked.append((args, named)) or MadeUpReader()
    )
    clip = dataclasses.replace(VIDEO, start_seconds=1.5, end_seconds=2.5)
    lane = Lane(Unit(1, 1, clip, 0, None, 0, None, is_chain=False), 0, 0, None)
    list(FrameReader("opencv", lambda *_: None, target_size=96).read(lane))
    options = {"decoder": "opencv", "start_seconds": 1.5, "end_seconds": 2.5, "target_size": 96}
    assert asked == [(("a.mp4",), options)]


def test_a_video_is_read_from_its_beginning_to_its_end(read, places):
    made_up = MadeUpReader()
    lane, items = read(made_up)
    assert items == [(index, None, index) for index in range(6)]
    assert (lane.lost, lane.fps, made_up.is_closed) == ([], 12.5, True)
    # Opening, six frames, and the end that is looked for behind them.
    steps = [0, *range(7)]
    assert places == [((3, index, DECODING), 0.0) for index in steps]


def test_a_unit_in_the_middle_may_take_longer_to_get_there(read, places):
    lane, items = read(MadeUpReader(), next_frame=2, stop_frame=4)
    assert items == [(2, None, 2), (3, None, 3)]
    assert lane.lost == []
    assert reading.SLOW_STEP_SECONDS == 600.0
    assert places == [
        ((3, 2, DECODING), 0.0), ((3, 2, DECODING), 600.0), ((3, 3, DECODING), 0.0),
    ]  # fmt: skip


def test_a_video_that_cannot_be_opened_is_lost_whole(monkeypatch):
    def refuse(*_, **__):
        raise DecodeError("a.mp4: empty", reason="empty file")

    monkeypatch.setattr(reading, "open_video", refuse)
    for known, lost in ((6, 6), (None, 0)):
        clip = dataclasses.replace(VIDEO, num_frames=known)
        lane = Lane(Unit(1, 1, clip, 0, None, 0, None, is_chain=False), 0, 0, None)
        assert list(FrameReader("pyav", lambda *_: None).read(lane)) == []
        assert lane.lost == [Lost(None, lost, "a.mp4", "empty file", "a.mp4: empty")]
        assert lane.next_frame == lost


def test_damage_loses_the_rest_of_a_unit_from_the_first_that_was_not_taken(read):
    lane, items = read(MadeUpReader(damaged=3), taken=3)
    assert [index for index, _, _ in items] == [0, 1, 2]
    assert lane.lost == [Lost(3, 3, "a.mp4", "truncated", "damaged at 3")]
    assert lane.next_frame == 6
    lane, _ = read(MadeUpReader(damaged=3), taken=3, stop_frame=5)
    assert (lane.lost[0].num_frames, lane.next_frame) == (2, 5)


@pytest.mark.parametrize(("counted", "lost"), [(None, 1), (2, 1), (3, 1), (4, 1), (5, 2), (9, 6)])
def test_of_a_video_of_unknown_length_as_many_are_lost_as_can_be_counted(read, counted, lost):
    clip = dataclasses.replace(VIDEO, num_frames=None)
    lane, _ = read(MadeUpReader(damaged=3, counted=counted), clip, taken=3)
    assert (lane.lost[0].num_frames, lane.next_frame) == (lost, 3 + lost)


def test_more_frames_taken_than_there_are_lose_none(read):
    lane, _ = read(MadeUpReader(damaged=3), taken=8)
    assert (lane.lost[0].num_frames, lane.next_frame) == (0, 8)


def test_a_frame_that_crashed_workers_ends_the_video(read):
    lane, items = read(MadeUpReader(), taken=2, give_up=(2, "died thrice"))
    assert [index for index, _, _ in items] == [0, 1]
    assert lane.lost == [Lost(2, 4, "a.mp4", "crashed the worker", "died thrice")]
    lane, items = read(MadeUpReader(), give_up=(6, "behind the end"), stop_frame=6)
    assert (len(items), lane.lost) == (6, [])


def test_a_video_that_ends_too_early_says_so(read):
    lane, items = read(MadeUpReader(4), taken=4)
    assert len(items) == 4
    message = "the file ends after 4 of 6 frames"
    assert lane.lost == [Lost(4, 2, "a.mp4", "ends too early", message)]
    assert read(MadeUpReader(4), stop_frame=4)[0].lost == []
    lane, _ = read(MadeUpReader(4), taken=4, stop_frame=5)
    assert lane.lost[0].num_frames == 1
    # A unit that ends behind what was known of the clip: nothing says how many there are.
    lane, _ = read(MadeUpReader(4), dataclasses.replace(VIDEO, num_frames=None), stop_frame=5)
    assert lane.lost == []


@pytest.fixture
def folder(make_tree):
    return make_tree({"train/a": 4}) / "train" / "a"


def read_pictures(folder, places=None, *, num_frames=4, **changes):
    clip = Clip("a", str(folder), "frames", num_frames=num_frames)
    unit = Unit(1, 1, clip, 0, None, 0, None, is_chain=False)
    unit = dataclasses.replace(unit, **changes)
    lane = Lane(unit, 2, unit.next_frame, None)
    seen = [] if places is None else places
    return lane, list(FrameReader("pyav", lambda *step: seen.append(step)).read(lane))


def test_pictures_come_with_their_paths(folder, places):
    _, items = read_pictures(folder, places)
    assert [item[:2] for item in items] == [
        (index, str(folder / f"{index:04d}.png")) for index in range(4)
    ]
    assert all(pixels.shape == (12, 16, 3) for _, _, pixels in items)
    assert not np.array_equal(items[0][2], items[1][2])
    assert places == [((2, index, DECODING), 0.0) for index in (0, 0, 1, 2, 3)]


@pytest.mark.parametrize(
    ("num_frames", "start", "stop", "indices"),
    [(4, 1, 3, [1, 2]), (4, 1, 9, [1, 2, 3]), (3, 0, None, [0, 1, 2]), (None, 2, None, [2, 3])],
)
def test_a_unit_ends_where_it_or_its_clip_does(folder, num_frames, start, stop, indices):
    _, items = read_pictures(folder, num_frames=num_frames, next_frame=start, stop_frame=stop)
    assert [index for index, _, _ in items] == indices


def test_a_clip_that_was_planned_empty_stays_so(folder):
    assert read_pictures(folder, num_frames=0)[1] == []


def test_pictures_that_are_gone_are_missing_one_by_one(folder):
    (folder / "0003.png").unlink()
    _, items = read_pictures(folder, num_frames=5)
    gone = Failed("missing", "the folder has 3 of 5 frames left")
    assert [index for index, _, _ in items] == [0, 1, 2, 3, 4]
    assert items[3:] == [(3, str(folder), gone), (4, str(folder), gone)]


def test_pictures_that_crashed_workers_are_not_read_again(folder, places):
    _, items = read_pictures(folder, places, skip={1: "died"}, give_up=(3, "died"))
    skipped = Failed("skipped", "")
    assert items[1] == (1, str(folder / "0001.png"), skipped)
    assert items[3] == (3, str(folder / "0003.png"), skipped)
    assert [isinstance(items[index][2], Failed) for index in (0, 2)] == [False, False]
    assert [place[1] for place, _ in places] == [0, 0, 2]


def test_a_damaged_picture_is_lost_and_the_next_one_follows(folder):
    (folder / "0001.png").write_bytes(b"")
    lane, items = read_pictures(folder)
    assert [isinstance(item[2], Failed) for item in items] == [False, True, False, False]
    assert items[1][2].reason == "empty file"
    assert lane.lost == []


def test_a_folder_that_is_gone_loses_the_rest(tmp_path):
    lane, items = read_pictures(tmp_path / "gone", next_frame=1)
    assert items == []
    (lost,) = lane.lost
    assert (lost.frame_index, lost.num_frames, lost.path) == (None, 3, str(tmp_path / "gone"))
    assert lane.next_frame == 4


def test_a_folder_is_listed_once_and_another_anew(folder, monkeypatch):
    listed = []
    monkeypatch.setattr(
        reading, "list_frames", lambda clip: listed.append(clip.path) or [clip.path]
    )
    listing = Listing()
    one, other = Clip("a", "one", "frames"), Clip("b", "other", "frames")
    for clip in (one, one, other, one, dataclasses.replace(one, kind="pictures")):
        assert listing.names_of(clip) == [clip.path]
    assert listed == ["one", "other", "one", "one"]


def test_readers_share_a_listing_that_is_given(folder, monkeypatch):
    listing = Listing()
    clip = Clip("a", str(folder), "frames", num_frames=1)
    lane = Lane(Unit(1, 1, clip, 0, None, 0, None, is_chain=False), 0, 0, None)
    names = listing.names_of(clip)
    monkeypatch.setattr(reading, "list_frames", lambda _: pytest.fail("was listed before"))
    (item,) = FrameReader("pyav", lambda *_: None, listing).read(lane)
    assert item[1] == str(folder / names[0])
