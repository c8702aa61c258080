"""The example loaders on DALI and torchcodec: what they refuse; their batches by torch's."""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import posemill
from posemill.errors import DeviceError, MissingExtraError, TrainingError
from posemill.records import Clip
from posemill.testing.decoders import number_of, write_video
from posemill.training.video.reading import FrameSize

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))
from device_loaders import DaliLoader, TorchcodecLoader, resize_on_device

HAS_DALI = find_spec("nvidia") is not None and find_spec("nvidia.dali") is not None


def loads_torchcodec():
    """Whether it is there, and FFmpeg's shared libraries with it."""
    try:
        import_module("torchcodec.decoders")
    except (ImportError, RuntimeError, OSError):
        return False
    return True


needs_dali = pytest.mark.skipif(not HAS_DALI, reason="DALI is not installed: posemill[dali]")
needs_torchcodec = pytest.mark.skipif(
    not loads_torchcodec(), reason="no torchcodec (posemill[torchcodec]), or no FFmpeg for it"
)
EACH = pytest.mark.parametrize(
    "loader_class",
    [
        pytest.param(DaliLoader, marks=needs_dali, id="dali"),
        pytest.param(TorchcodecLoader, marks=needs_torchcodec, id="torchcodec"),
    ],
)


@pytest.fixture
def films(tmp_path):
    """Five videos that DALI decodes without a GPU, in one folder."""
    for number in range(5):
        write_video(tmp_path / f"{number}.webm", 12, codec="libvpx-vp9", options={"cpu-used": "8"})
    return tmp_path


@pytest.mark.parametrize(
    ("loader_class", "package"), [(DaliLoader, "nvidia.dali"), (TorchcodecLoader, "torchcodec")]
)
def test_a_missing_package_or_gpu_names_the_extra_or_what_to_use(loader_class, package, videos):
    clips = posemill.VideoClips(videos)
    with pytest.raises(DeviceError, match="device: expected cuda or cpu, got 'meta'"):
        loader_class(clips, batch_size=2, device="meta")
    if not torch.cuda.is_available():
        with pytest.raises(DeviceError, match="torch sees none here; use a DataLoader of the same"):
            loader_class(clips, batch_size=2)
    if find_spec(package.partition(".")[0]) is None:
        with pytest.raises(MissingExtraError, match=f"needs '{package}'.* pip install 'posemill"):
            loader_class(clips, batch_size=2, device="cpu")


def test_clips_that_are_no_whole_videos_are_refused(packed, videos):
    with pytest.raises(TrainingError, match="these clips are frames already: use a DataLoader"):
        DaliLoader(posemill.VideoClips(packed), batch_size=2)
    window = Clip("a", str(videos.parent / "clip0.mp4"), "video", start_seconds=0.1)
    with pytest.raises(TrainingError, match="start_seconds and end_seconds need a DataLoader"):
        DaliLoader(posemill.VideoClips([window]), batch_size=2)
    with pytest.raises(ValueError, match="batch_size: expected 1 or more, got 0"):
        DaliLoader(posemill.VideoClips(videos), batch_size=0)
    with pytest.raises(ValueError, match="threads: expected 1 or more, got 0"):
        DaliLoader(posemill.VideoClips(videos), batch_size=1, device="cpu", threads=0)


@pytest.mark.parametrize("resize", ["crop", "stretch"])
def test_frames_are_resized_on_the_device_as_elsewhere(resize):
    y, x = np.mgrid[0:48, 0:64]
    scene = np.stack([x * 3, y * 4, x + y], -1).astype(np.uint8)
    size = FrameSize((40, 30), resize)
    found = resize_on_device(torch.from_numpy(scene).permute(2, 0, 1)[None], size)
    assert found.shape == (1, 30, 40, 3)
    assert np.abs(found[0].numpy().astype(int) - size.apply(scene)).max() <= 2
    whole = resize_on_device(torch.from_numpy(scene).permute(2, 0, 1)[None], FrameSize(None))
    np.testing.assert_array_equal(whole[0], scene)


@EACH
@pytest.mark.parametrize("size", [None, 40, (60, 40)])
@pytest.mark.parametrize("resize", ["crop", "stretch"])
def test_batches_are_those_of_torch_but_for_rounding(loader_class, size, resize, films):
    clips = posemill.VideoClips(films, size=size, resize=resize, sampling="uniform:4")
    ours = list(DataLoader(clips, batch_size=2, collate_fn=clips.collate_fn))
    loader = loader_class(clips, batch_size=2, device="cpu")
    assert len(loader) == len(ours) == 3
    for mine, theirs in zip(ours, loader, strict=True):
        assert theirs["index"].tolist() == mine["index"].tolist()
        assert theirs["frames"].shape == mine["frames"].shape
        assert (theirs["frames"].float() - mine["frames"].float()).abs().mean() < 3


@EACH
def test_draws_and_order_follow_seed_and_epoch(loader_class, films):
    clips = posemill.VideoClips(films, size=None, sampling="segments:4", is_training=True)
    loader = loader_class(clips, batch_size=5, device="cpu")
    for epoch in range(2):
        (batch,) = loader
        order = np.random.default_rng([0, epoch]).permutation(5).tolist()
        assert batch["index"].tolist() == order
        for row, index in enumerate(order):
            item = clips.at_epoch(index, epoch)
            drawn = [number_of(frame) for frame in item["frames"].numpy()]
            assert [number_of(frame) for frame in batch["frames"][row].numpy()] == drawn


@needs_dali
def test_what_dali_cannot_decode_is_one_sentence(videos):
    loader = DaliLoader(posemill.VideoClips(videos), batch_size=2, device="cpu")
    with pytest.raises(TrainingError, match=r"DALI cannot decode a clip of this batch \(.*clip0"):
        next(iter(loader))
