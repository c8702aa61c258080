"""Decoded frames kept on the disk: the same frames, without decoding."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from posemill import VideoClips
from posemill.errors import TrainingError
from posemill.training.video import reading
from posemill.training.video.reading import FrameCache


@pytest.fixture
def own(videos, tmp_path):
    """A list of videos that a test may change."""
    shutil.copytree(videos.parent, tmp_path / "own")
    return tmp_path / "own" / "videos.csv"


@pytest.fixture
def opens(monkeypatch):
    """The videos that were opened, in order."""
    opened: list[str] = []
    real = reading.open_video

    def note(path: str, **more: Any) -> Any:
        opened.append(Path(path).name)
        return real(path, **more)

    monkeypatch.setattr(reading, "open_video", note)
    return opened


def read(index: Path, tmp_path: Path, *, cache: bool = True, **more: Any) -> list[torch.Tensor]:
    clips = VideoClips(index, split="train", size=16, cache=cache,
                       cache_folder=tmp_path / "cache", **more)  # fmt: skip
    items = [clips.at_epoch(number, epoch) for epoch in (0, 1) for number in range(len(clips))]
    return [item["frames"] for item in items if item is not None]


@pytest.mark.parametrize("sampling", ["segments:4", "dense:4/8", "uniform:15", "fps:5", "all"])
def test_frames_are_those_that_decoding_gives(own, tmp_path, sampling, opens):
    plain = read(own, tmp_path, cache=False, sampling=sampling)
    for _ in range(2):  # decoded now, and as kept
        opens.clear()
        kept = read(own, tmp_path, sampling=sampling)
        assert len(kept) == 12
        assert all(map(torch.equal, plain, kept))
        kept[0][:] = 0  # a copy
    assert bool(opens) == (sampling == "fps:5")  # whose times are in the file


def test_a_clip_is_opened_once_for_all_epochs_and_sizes_are_kept_apart(own, tmp_path, opens):
    read(own, tmp_path)
    assert len(opens) == 6
    clips = VideoClips(own, split="train", size=16, cache=True, cache_folder=tmp_path / "cache")
    small = clips.reshaped(4, 8)
    assert small[0]["frames"].shape == (4, 8, 8, 3)
    plain = VideoClips(own, split="train", size=8, sampling="segments:4")
    assert torch.equal(small.at_epoch(1, 0)["frames"], plain.at_epoch(1, 0)["frames"])


def test_a_file_that_changed_is_decoded_again(own, tmp_path):
    before = read(own, tmp_path)[0]
    first = own.parent / "clip0.mp4"
    shutil.copy(own.parent / "clip1.mp4", first)
    os.utime(first, ns=(1, 1))
    plain = read(own, tmp_path, cache=False)[0]
    assert torch.equal(read(own, tmp_path)[0], plain)
    assert before.shape == plain.shape


def test_loader_processes_fill_one_cache_and_copies_find_it(own, tmp_path):
    clips = VideoClips(own, split="train", size=16, cache=True, cache_folder=tmp_path / "cache")
    clips.set_epoch(0)
    plain = VideoClips(own, split="train", size=16)
    for _ in range(2):
        loader: Any = DataLoader(clips, batch_size=3, num_workers=2)
        for batch in loader:
            for frames, index in zip(batch["frames"], batch["index"], strict=True):
                assert torch.equal(frames, plain.at_epoch(int(index), 0)["frames"])
    for path in own.parent.glob("*.mp4"):
        facts = path.stat()
        path.write_bytes(bytes(facts.st_size))  # nothing to decode any more
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    again = pickle.loads(pickle.dumps(clips))
    assert again.at_epoch(5, 0)["frames"].shape == (8, 16, 16, 3)


def test_a_damaged_file_is_made_again(own, tmp_path):
    plain = read(own, tmp_path)
    for number, path in enumerate((tmp_path / "cache").rglob("*.npy")):
        path.write_bytes(path.read_bytes()[: 200 * number])
    assert all(map(torch.equal, plain, read(own, tmp_path)))


@pytest.mark.parametrize("reason", ["disk", "long"])
def test_what_has_no_room_is_decoded_each_time(own, tmp_path, opens, monkeypatch, reason):
    if reason == "disk":
        full = SimpleNamespace(free=100_000, total=1_000_000)
        monkeypatch.setattr(reading.shutil, "disk_usage", lambda _: full)
    else:
        monkeypatch.setattr(reading, "_MOST_BYTES", 100)
    plain = read(own, tmp_path, cache=False)
    assert all(map(torch.equal, plain, read(own, tmp_path)))
    assert not list((tmp_path / "cache").rglob("*.npy"))
    assert len(opens) == 12


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainingError, match=r'cannot write decoded frames to .*cache="none"'):
        FrameCache(tmp_path / "file", "way")
