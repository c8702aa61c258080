from pathlib import Path

import pytest

from posemill.config import ExtractConfig, parse_size, skeleton_of
from posemill.errors import ConfigError


def make(**changes):
    return ExtractConfig(Path("in"), Path("out"), **changes)


def test_what_holds_where_nothing_is_said():
    config = make()
    names = (
        "layout", "splits", "engine", "engine_options", "mode", "skeleton", "decoder",
        "resize", "split_long_seconds", "workers", "executor", "num_gpus", "num_workers_per_gpu",
        "batch_size", "task_frames", "timeout_seconds", "memory_limit_mb", "max_tries",
        "retry_failed", "temp_dir", "fps", "stride", "storage",
    )  # fmt: skip
    assert [getattr(config, name) for name in names] == [
        "auto", None, "holistic", {}, "auto", "auto", "pyav", None, None, None, "processes", 0, 1,
        None, 512, 120.0, None, 3, False, None, None, 1, "auto",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "fits", "does_not"),
    [("workers", 1, 0), ("num_gpus", 0, -1), ("num_workers_per_gpu", 1, 0), ("batch_size", 1, 0),
     ("task_frames", 1, 0), ("stride", 1, 0), ("memory_limit_mb", 0, -1), ("max_tries", 1, 0),
     ("split_long_seconds", 0.001, 0), ("timeout_seconds", 0.001, 0), ("mode", "auto", "autos"),
     ("mode", "image", "images"), ("mode", "video", "videos")],
)  # fmt: skip
def test_numbers_have_a_least_value_and_modes_are_three(name, fits, does_not):
    assert getattr(make(**{name: fits}), name) == fits
    with pytest.raises(ConfigError, match=name):
        make(**{name: does_not})


def test_a_skeleton_has_a_short_name():
    assert skeleton_of("auto") == "auto"
    assert skeleton_of(143) == skeleton_of("143") == skeleton_of("holistic-143") == "holistic-143"
    assert make(skeleton="543").skeleton == "holistic-543"
    assert make(keep=143).skeleton == "holistic-143"
    with pytest.raises(ConfigError, match="unknown skeleton 'octopus'"):
        make(skeleton="octopus")


def test_workers_share_the_devices_there_are_and_are_not_counted_twice():
    assert make().devices() == ["cpu"]
    assert make(num_gpus=1).devices() == ["cuda:0"]
    assert make(num_gpus=3, num_workers_per_gpu=2).devices() == ["cuda:0", "cuda:1", "cuda:2"]
    with pytest.raises(ConfigError) as caught:
        make(workers=1, num_gpus=1)
    assert str(caught.value).endswith(
        "workers and num_gpus exclude each other: with GPUs the number of workers is num_gpus x "
        "num_workers_per_gpu"
    )
    assert make(workers=2, num_gpus=0).workers == 2
    with pytest.raises(ConfigError, match=r"'num_workers'; did you mean 'workers'\?"):
        make(num_workers=2)


def test_what_decides_the_result():
    assert make().deciding_options() == {
        "mode": "auto", "decoder": "pyav", "resize": None, "split_long_seconds": None,
        "splits": None, "fps": None, "stride": None,
    }  # fmt: skip
    config = make(
        mode="image",
        decoder="opencv",
        resize=256,
        split_long_seconds=9.5,
        splits=("dev", "test"),
        stride=2,
    )
    assert config.deciding_options() == {
        "mode": "image", "decoder": "opencv", "resize": "256x256", "split_long_seconds": 9.5,
        "splits": ["dev", "test"], "fps": None, "stride": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("said", "size"),
    [(256, "256x256"), ("256", "256x256"), ("320x240", "320x240"), ("0320X240", "320x240"),
     ((320, 240), "320x240"), ([8, 8192], "8x8192"), (None, None)],
)  # fmt: skip
def test_a_size_to_resize_to_is_a_side_or_width_and_height(said, size):
    assert make(resize=said).resize == size


@pytest.mark.parametrize(
    "said", ["", "x", "7", 8193, "256x", "x256", "1x2x3", "-256", "25.6", 25.6, "256 x 256",
             "²", (), (1, 2, 3), (256, 4), True],
)  # fmt: skip
def test_what_is_no_size_to_resize_to_is_refused(said):
    with pytest.raises(ConfigError) as caught:
        make(resize=said)
    assert str(caught.value).startswith("resize: expected WIDTHxHEIGHT")
    assert str(caught.value).endswith(f"8 to 8192 pixels, got {said!r}")


def test_a_picture_may_be_of_any_size():
    assert parse_size("1x1") == (1, 1)
    assert parse_size(("1280", 720)) == parse_size("1280X720") == (1280, 720)
    with pytest.raises(ConfigError, match=r"^size: .* got '0x720'"):
        parse_size("0x720")
