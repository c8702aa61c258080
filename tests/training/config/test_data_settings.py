"""Settings of the clips: limits on both sides, and what follows from them."""

from __future__ import annotations

import pytest

from posemill.errors import ConfigError
from posemill.training.config.data_settings import DataSettings


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
