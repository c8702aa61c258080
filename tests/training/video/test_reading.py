"""Frames out of videos, pictures and packs: the same ones, in the size asked for, kept or not."""

import dataclasses
import gc
import os
import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import psutil
import pytest
import torch
from numbered_clips import frames_of
from torch.utils.data import DataLoader

from posemill import VideoClips
from posemill.decoders.sampling import Sampling
from posemill.errors import DecodeError, TrainingError
from posemill.records import Clip
from posemill.testing.decoders import number_of, write_video
from posemill.training.video import reading
from posemill.training.video.index import read_index
from posemill.training.video.reading import ClipReader, FrameCache, FrameSize

ALL, THREE = Sampling.parse("all"), Sampling.parse("uniform:3")
AS_IT_IS = FrameSize(None)


def reader(size=AS_IT_IS, max_open=4):
    return ClipReader(size, decoder="pyav", max_open=max_open)


@pytest.mark.parametrize("source", ["packed", "pictures"])
def test_packs_and_pictures_give_the_very_pixels(source, request):
    clips, _ = read_index(request.getfixturevalue(source))
    for number in (0, 7):
        frames, indices = reader().read(clips[number], ALL, None)
        np.testing.assert_array_equal(frames, frames_of(number))
        assert indices.tolist() == list(range(12))
    frames, indices = reader().read(clips[3], THREE, None)
    assert indices.tolist() == [0, 6, 11]
    np.testing.assert_array_equal(frames, frames_of(3)[[0, 6, 11]])
    assert frames.flags.writeable


def test_a_rate_goes_by_the_times_of_the_frames(videos, tmp_path):
    # two frames a second are on show at 0, 0.5, 1.0 …
    uneven = write_video(tmp_path / "uneven.mkv", 6, times=[0, 10, 20, 90, 200, 210])
    clip = replace(read_index(videos)[0][0], path=str(uneven))
    frames, indices = reader().read(clip, Sampling.parse("fps:2"), None)
    assert indices.tolist() == [0, 2, 3, 4]
    assert [number_of(frame) for frame in frames] == [0, 2, 3, 4]


def test_a_window_of_a_video_is_a_clip_and_a_video_shorter_than_it_says_is_none(videos):
    clips, _ = read_index(videos)
    window = replace(clips[0], start_seconds=0.08, end_seconds=0.2)
    frames, _ = reader().read(window, ALL, None)
    assert [number_of(frame) for frame in frames] == [2, 3, 4]
    mine = reader()
    mine.read(clips[0], ALL, None)
    mine._open_video(clips[0]).num_frames = 13
    with pytest.raises(DecodeError, match=r"clip0.mp4': corrupt: .*12"):
        mine.read(clips[0], ALL, None)


def test_cropping_keeps_the_middle_and_the_proportions():
    size = FrameSize((16, 16))
    assert size.scaled_wh((48, 32)) == (24, 16)
    assert size.scaled_wh((32, 48)) == (16, 24)
    assert size.scaled_wh((1000, 10)) == (1600, 16)
    assert FrameSize((30, 10)).scaled_wh((20, 20)) == (30, 30)
    across = np.zeros((16, 24, 3), np.uint8)
    across[:, :, 0] = np.arange(24)
    assert size.apply(across)[0, :, 0].tolist() == list(range(4, 20))
    assert FrameSize((16, 16), "stretch").scaled_wh((48, 32)) == (16, 16)


def test_sizes_that_are_none_are_refused():
    with pytest.raises(ValueError, match="resize: expected crop or stretch, got 'fill'"):
        FrameSize((16, 16), "fill")
    with pytest.raises(ValueError, match=r"size: expected 1 pixel or more, got \(0, 16\)"):
        FrameSize((0, 16))
    with pytest.raises(ValueError, match="max_open: expected 1 or more, got 0"):
        reader(max_open=0)


def test_no_more_files_stay_open_than_allowed(videos):
    clips, _ = read_index(videos)
    mine, process = reader(max_open=3), psutil.Process()
    gc.collect()  # errors of other tests hold what they were about
    before = process.num_fds()
    for _ in range(2):
        for clip in clips:
            mine.read(clip, THREE, None)
            assert mine.num_open <= 3
            assert process.num_fds() <= before + 3
    mine.close()
    assert mine.num_open == 0
    assert process.num_fds() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_files_are_closed_before_a_fork_and_do_not_travel_to_another_process(videos):
    clips, _ = read_index(videos)
    mine = reader()
    mine.read(clips[0], THREE, None)
    there = pickle.loads(pickle.dumps(mine))
    assert there.num_open == 0
    assert there.read(clips[0], THREE, None)[0].shape == (3, 48, 64, 3)
    child = os.fork()
    if not child:
        is_right = mine.num_open == 0 and len(mine.read(clips[1], THREE, None)[0]) == 3
        os._exit(0 if is_right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert mine.num_open == 0
    assert len(mine.read(clips[0], THREE, None)[0]) == 3


def test_a_pack_that_is_too_short_or_empty_or_gone_says_so(packed):
    clips, _ = read_index(packed)
    pack = packed / "packs" / "000000.rgb"
    whole = pack.read_bytes()
    pack.write_bytes(whole[:-1])
    assert len(reader().read(clips[7], ALL, None)[0]) == 12
    with pytest.raises(DecodeError, match=r"truncated: clip 'clip8' should end at byte 497,664 of"):
        reader().read(clips[8], ALL, None)
    pack.write_bytes(b"")
    with pytest.raises(DecodeError, match=r"empty file: it has 0 bytes; write it again"):
        reader().read(clips[8], ALL, None)
    pack.unlink()
    with pytest.raises(DecodeError, match="missing: no such file"):
        reader().read(clips[8], ALL, None)


def test_pictures_are_looked_up_have_one_size_and_are_there(pictures):
    clips, _ = read_index(pictures)
    bare = Clip("clip0", clips[0].path, "frames")
    assert len(reader().read(bare, ALL, None)[0]) == 12, "names are looked up"
    cv2.imwrite(f"{bare.path}/000005.png", np.zeros((8, 8, 3), np.uint8))
    with pytest.raises(DecodeError, match=r"frames of 8 x 8 and 48 x 32 in one clip; give a size"):
        reader().read(bare, ALL, None)
    assert reader(FrameSize((16, 16))).read(bare, ALL, None)[0].shape == (12, 16, 16, 3)
    for path in Path(bare.path).iterdir():
        path.unlink()
    with pytest.raises(DecodeError, match="no frames: the folder holds no pictures"):
        reader().read(bare, ALL, None)
    with pytest.raises(DecodeError, match=r"000000.png': missing"):
        reader().read(clips[0], ALL, None)


def test_large_jpegs_are_decoded_small_and_look_the_same(tmp_path):
    y, x = np.mgrid[0:240, 0:320]
    scene = np.stack([x // 2, y, (x + y) // 3], -1).astype(np.uint8)
    cv2.imwrite(str(tmp_path / "000000.jpg"), scene[..., ::-1])
    clip = Clip("scene", str(tmp_path), "frames")
    frames, _ = reader(FrameSize((60, 60))).read(clip, ALL, None)
    whole = cv2.resize(scene, (80, 60), interpolation=cv2.INTER_AREA)[:, 10:70]
    assert np.abs(frames[0].astype(int) - whole).max() <= 6


def test_a_pack_is_mapped_once_for_all_readers_and_anew_when_it_is_another(packed):
    (clip, *_), _ = read_index(packed)
    pack, one = packed / "packs" / "000000.rgb", reader()
    others = [dataclasses.replace(one, size=FrameSize((side, side))) for side in (8, 16)]
    frames = one.read(clip, ALL, None)[0]
    for other in others:
        other.read(clip, ALL, None)
    assert Path("/proc/self/maps").read_text().count(str(pack)) == 1
    new = pack.with_suffix(".new")
    new.write_bytes(bytes(255 - np.frombuffer(pack.read_bytes(), np.uint8)))
    new.replace(pack)
    one.close()
    assert np.array_equal(one.read(clip, ALL, None)[0], 255 - frames)


@pytest.fixture
def own(videos, tmp_path):
    """A list of videos that a test may change."""
    shutil.copytree(videos.parent, tmp_path / "own")
    return tmp_path / "own" / "videos.csv"


@pytest.fixture
def opens(monkeypatch):
    """The videos that were opened, in order."""
    opened = []
    real = reading.open_video

    def note(path, **more):
        opened.append(Path(path).name)
        return real(path, **more)

    monkeypatch.setattr(reading, "open_video", note)
    return opened


def frames_in(index, tmp_path, *, cache=True, **more):
    clips = VideoClips(index, split="train", size=16, cache=cache,
                       cache_folder=tmp_path / "cache", **more)  # fmt: skip
    items = [clips.at_epoch(number, epoch) for epoch in (0, 1) for number in range(len(clips))]
    return [item["frames"] for item in items if item is not None]


@pytest.mark.parametrize("sampling", ["segments:4", "dense:4/8", "uniform:15", "fps:5", "all"])
def test_frames_are_those_that_decoding_gives(own, tmp_path, sampling, opens):
    plain = frames_in(own, tmp_path, cache=False, sampling=sampling)
    for _ in range(2):  # decoded now, and as kept
        opens.clear()
        kept = frames_in(own, tmp_path, sampling=sampling)
        assert len(kept) == 12
        assert all(map(torch.equal, plain, kept))
        kept[0][:] = 0  # a copy
    assert bool(opens) == (sampling == "fps:5")  # whose times are in the file


def test_a_clip_is_opened_once_for_all_epochs_and_sizes_are_kept_apart(own, tmp_path, opens):
    frames_in(own, tmp_path)
    assert len(opens) == 6
    clips = VideoClips(own, split="train", size=16, cache=True, cache_folder=tmp_path / "cache")
    small = clips.reshaped(4, 8)
    assert small[0]["frames"].shape == (4, 8, 8, 3)
    plain = VideoClips(own, split="train", size=8, sampling="segments:4")
    assert torch.equal(small.at_epoch(1, 0)["frames"], plain.at_epoch(1, 0)["frames"])


def test_a_file_that_changed_is_decoded_again_and_a_damaged_one_made_again(own, tmp_path):
    plain = frames_in(own, tmp_path)
    for number, path in enumerate((tmp_path / "cache").rglob("*.npy")):
        path.write_bytes(path.read_bytes()[: 200 * number])
    assert all(map(torch.equal, plain, frames_in(own, tmp_path)))
    first = own.parent / "clip0.mp4"
    shutil.copy(own.parent / "clip1.mp4", first)
    os.utime(first, ns=(1, 1))
    decoded = frames_in(own, tmp_path, cache=False)[0]
    assert torch.equal(frames_in(own, tmp_path)[0], decoded)


def test_loader_processes_fill_one_cache_and_copies_find_it(own, tmp_path):
    clips = VideoClips(own, split="train", size=16, cache=True, cache_folder=tmp_path / "cache")
    clips.set_epoch(0)
    plain = VideoClips(own, split="train", size=16)
    for _ in range(2):
        loader = DataLoader(clips, batch_size=3, num_workers=2)
        for batch in loader:
            for frames, index in zip(batch["frames"], batch["index"], strict=True):
                assert torch.equal(frames, plain.at_epoch(int(index), 0)["frames"])
    for path in own.parent.glob("*.mp4"):
        facts = path.stat()
        path.write_bytes(bytes(facts.st_size))  # nothing to decode any more
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert pickle.loads(pickle.dumps(clips)).at_epoch(5, 0)["frames"].shape == (8, 16, 16, 3)


@pytest.mark.parametrize("reason", ["disk", "long"])
def test_what_has_no_room_is_decoded_each_time(own, tmp_path, opens, monkeypatch, reason):
    if reason == "disk":
        full = SimpleNamespace(free=100_000, total=1_000_000)
        monkeypatch.setattr(reading.shutil, "disk_usage", lambda _: full)
    else:
        monkeypatch.setattr(reading, "_MOST_BYTES", 100)
    plain = frames_in(own, tmp_path, cache=False)
    assert all(map(torch.equal, plain, frames_in(own, tmp_path)))
    assert not list((tmp_path / "cache").rglob("*.npy"))
    assert len(opens) == 12


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainingError, match=r'cannot write decoded frames to .*cache="none"'):
        FrameCache(tmp_path / "file", "way")
