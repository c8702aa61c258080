"""Presets and the settings of the clips: numbers, limits on both sides, what follows from them."""

import pytest

from posemill.errors import ConfigError
from posemill.training.config.data_settings import DataSettings
from posemill.training.config.run_settings import (
    COMPILES_ON_GPU,
    PRESETS,
    fitting_micro_batch,
    loader_workers,
    preset_values,
)


def test_what_presets_differ_in():
    names = ("activation_checkpointing", "cache", "eval_every", "save_every")
    video = ("micro_batch", "batch_size", "cache", "model")
    found = {
        preset: tuple(map(values.get, names))
        + tuple(map(preset_values(preset, kind="video").get, video))
        for preset, values in PRESETS.items()
    }
    assert found == {
        "high-performance": (False, "ram", 5, 5, 32, 32, "mmap", "tsm"),
        "balanced": (False, "mmap", 2, 2, 16, 32, "none", "tsm"),
        "memory-limited": (True, "mmap", 5, 5, 4, 32, "none", "tsm"),
        "extreme": (False, "ram", 10, 10, 64, 64, "mmap", "tsm"),
    }
    assert all(values["persistent_workers"] is True for values in PRESETS.values())
    assert {"high-performance", "extreme"} == COMPILES_ON_GPU


@pytest.mark.parametrize(
    ("preset", "cores", "ranks", "workers"),
    [
        ("high-performance", 8, 1, 7),
        ("high-performance", 9, 1, 8),
        ("high-performance", 10, 1, 8),
        ("balanced", 4, 1, 3),
        ("balanced", 6, 1, 4),
        ("memory-limited", 2, 1, 1),
        ("memory-limited", 20, 1, 8),
        ("memory-limited", 1, 1, 0),
        ("extreme", 3, 1, 3),
        ("extreme", 17, 1, 16),
        ("extreme", 8, 2, 3),  # with others a rank keeps a core for itself
        ("extreme", 1, 1, 1),
        ("balanced", 7, 2, 2),
        ("balanced", 2, 4, 0),  # more ranks than cores
        ("balanced", 3, 0, 2),  # as though there were one rank
    ],
)
def test_loaders_fit_into_the_cores_of_a_rank(preset, cores, ranks, workers):
    assert loader_workers(preset, cores=cores, ranks=ranks) == workers


@pytest.mark.parametrize(
    ("wanted", "megabytes", "clips"),
    [(64, 4096, 64), (64, 4095, 32), (64, 2048, 32), (64, 2047, 16), (64, 100, 4), (64, 0, 4),
     (5, 100, 2), (4, 0, 4), (3, 0, 3)],
)  # fmt: skip
def test_a_pass_has_as_many_clips_as_the_memory_bears_at_64_mb_each(wanted, megabytes, clips):
    assert fitting_micro_batch(wanted, memory_bytes=megabytes << 20) == clips


@pytest.mark.parametrize(
    "options",
    [{"task": "guess"}, {"unit": "word"}, {"normalize": "x"}, {"cache": "disk"},
     {"short_clips": "keep"}, {"dev_fraction": 1.0}, {"dev_fraction": -0.1}, {"folds": 1},
     {"folds": 3, "fold": 3}, {"fold": -1}, {"csv_dims": 0}, {"csv_frames": 0},
     {"folds": 3, "leave_out": "signer"}, {"skeleton": "octopus"}],
)  # fmt: skip
def test_what_lies_outside_of_the_limits_is_refused(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        DataSettings("a", **options)


@pytest.mark.parametrize(
    ("options", "share"),
    [({}, 0.15), ({"folds": 3}, 0.0), ({"leave_out": "signer"}, 0.0), ({"val_split": "test"}, 0.0),
     ({"val_split": "valid"}, 0.15), ({"dev_fraction": 0.3}, 0.3),
     ({"dev_fraction": 0.3, "folds": 3}, 0.3)],
)  # fmt: skip
def test_a_share_is_set_aside_where_dev_picks_the_best(options, share):
    assert DataSettings("a", **options).dev_share == share


def test_folds_and_what_is_left_out_by_a_column_and_perhaps_a_value():
    assert DataSettings(folds=2, fold=1).fold == 1
    assert DataSettings(folds=0, fold=5).fold == 5, "not used, so not refused"
    assert DataSettings(leave_out="signer").left_out == ("signer", None)
    assert DataSettings(leave_out="signer = ann").left_out == ("signer", "ann")
    assert DataSettings(leave_out="signer=ann").group_column == "signer"
    assert DataSettings(folds=2, folds_by="day").group_column == "day"
