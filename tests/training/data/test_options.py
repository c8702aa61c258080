"""What is to be known about clips: limits on both sides, and the words that refuse."""

from __future__ import annotations

import re

import pytest

from posemill.errors import ConfigError
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.options import DataOptions


def test_the_defaults_are_those_of_the_configuration():
    options = DataOptions("a.npz")
    assert options == DataOptions(
        data="a.npz", labels="", task="classify", skeleton="auto", unit="clip", normalize="auto",
        num_dims=0, num_frames=0, max_frames=0, dev_fraction=0.0, folds=0, fold=0, split_seed=0,
        cache="mmap", cache_folder="", short_clips="error", csv_dims=2, csv_frames=1,
    )  # fmt: skip
    config = TrainConfig(data="b.npz", num_frames=32, split_seed=4, task="ctc")
    made = DataOptions.of(config)
    assert (made.data, made.num_frames, made.split_seed, made.task) == ("b.npz", 32, 4, "ctc")


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("task", "guess", "classify, ctc"),
        ("unit", "word", "clip, frame"),
        ("normalize", "x", None),
        ("cache", "disk", None),
        ("short_clips", "keep", "error, drop"),
    ],
)
def test_a_word_that_is_not_known_is_refused(name, value, allowed):
    with pytest.raises(ConfigError, match=f"^{name}: expected one of .+, got {value!r}$") as caught:
        DataOptions("a", **{name: value})
    if allowed:
        assert str(caught.value) == f"{name}: expected one of {allowed}, got {value!r}"


@pytest.mark.parametrize(
    "options",
    [{"task": "ctc"}, {"unit": "frame"}, {"short_clips": "drop"}, {"skeleton": "none"},
     {"skeleton": "143"}, {"dev_fraction": 0.0}, {"dev_fraction": 0.99}, {"folds": 2, "fold": 1},
     {"folds": 2, "fold": 0}, {"folds": 0, "fold": 7}, {"csv_dims": 1, "csv_frames": 1}],
)  # fmt: skip
def test_what_lies_within_the_limits_is_taken(options):
    made = DataOptions("a", **options)
    assert {name: getattr(made, name) for name in options} == options


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dev_fraction": 1.0}, "dev_fraction: expected 0 to below 1, got 1.0"),
        ({"dev_fraction": -0.1}, "dev_fraction: expected 0 to below 1, got -0.1"),
        ({"folds": 1}, "folds and fold: expected 2 or more folds and fold 0 to 0, got folds=1 "
                       "fold=0"),
        ({"folds": 3, "fold": 3}, "folds and fold: expected 2 or more folds and fold 0 to 2, got "
                                  "folds=3 fold=3"),
        ({"folds": 3, "fold": -1}, "folds and fold: expected 2 or more folds and fold 0 to 2, got "
                                   "folds=3 fold=-1"),
        ({"csv_dims": 0}, "csv_dims and csv_frames: expected 1 or more, got 0, 1"),
        ({"csv_frames": 0}, "csv_dims and csv_frames: expected 1 or more, got 2, 0"),
        ({"skeleton": "octopus"}, "unknown skeleton 'octopus'"),
    ],
)  # fmt: skip
def test_what_lies_outside_of_the_limits_is_refused(options, said):
    with pytest.raises(ConfigError, match=f"^{re.escape(said)}"):
        DataOptions("a", **options)


@pytest.mark.parametrize(
    ("options", "share"),
    [({"dev_fraction": None}, 0.15), ({"dev_fraction": None, "folds": 3}, 0.0),
     ({"dev_fraction": 0.3}, 0.3), ({"dev_fraction": 0.3, "folds": 3}, 0.3), ({}, 0.0)],
)  # fmt: skip
def test_a_share_is_set_aside_unless_the_clips_are_cut_into_folds(options, share):
    assert DataOptions("a", **options).dev_share == share
