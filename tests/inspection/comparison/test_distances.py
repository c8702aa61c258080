"""Quantiles out of bins, and agreement out of counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posemill.inspection.comparison.measure import (
    Distances,
    PartAgreement,
    SplitAgreement,
    bar_labels,
    shared_rows,
    total_of,
)


@settings(max_examples=30)
@given(
    st.lists(st.floats(2**-19, 2**19, width=32), min_size=1, max_size=60),
    st.sampled_from([0.0, 0.25, 0.5, 0.95, 1.0]),
)
def test_a_quantile_is_that_of_numpy_to_a_thousandth(values: list[float], share: float) -> None:
    pixels = np.array(values, np.float32)
    distances = Distances()
    for piece in np.array_split(pixels, 3):
        distances.add(piece)
    expected = np.quantile(pixels.astype(np.float64), share)
    assert distances.quantile(share) == pytest.approx(expected, rel=1e-3)
    assert distances.max == pixels.max()
    assert len(distances) == len(values)
    assert sum(distances.bars()) == len(values)


def test_nothing_has_no_quantile_and_what_cannot_be_seen_is_0() -> None:
    distances = Distances()
    distances.add(np.zeros((0, 3), np.float32))
    assert distances.quantile(0.5) is None
    distances.add(np.array([0.0, 1e-7, 1e-9], np.float32))
    assert distances.quantile(0.95) == 0.0
    distances.add(np.full(9, 1e30, np.float32))
    assert distances.quantile(0.5) > 2**19
    assert distances.max == pytest.approx(1e30)


def test_bars_are_named_by_where_they_end() -> None:
    assert bar_labels() == ["<0.01", "<0.03", "<0.1", "<0.3", "<1", "<3", "<10", "<30", "<100",
                            ">100"]  # fmt: skip
    distances = Distances()
    distances.add(np.array([0, 0.009, 0.02, 0.5, 0.5, 99, 101, 5000], np.float32))
    assert distances.bars() == [2, 1, 0, 0, 2, 0, 0, 0, 1, 2]


def test_both_found_and_both_missed_agree() -> None:
    part = PartAgreement()
    assert part.agree is None
    has = np.array([True, True, False, False, True])
    other = np.array([True, False, False, True, True])
    part.add(has, other, np.array([1, 3], np.float32))
    assert part.agree == pytest.approx(3 / 5)
    found = part.to_dict()
    assert {name: found[name] for name in ("num_frames", "one_has", "other_has", "both")} == {
        "num_frames": 5, "one_has": 3, "other_has": 3, "both": 2,
    }  # fmt: skip
    assert found["max"] == 3


def test_splits_add_up() -> None:
    splits = [SplitAgreement("train", 2), SplitAgreement("dev", 1)]
    for number, split in enumerate(splits, start=1):
        part = split.parts.setdefault("pose", PartAgreement())
        part.add(np.full(4, True), np.arange(4) < number, np.full(8, number, np.float32))
    total = total_of(splits, "all")
    assert (total.split, total.num_clips, total.num_frames) == ("all", 3, 8)
    assert total.parts["pose"].both == 3
    assert total.parts["pose"].agree == pytest.approx(3 / 8)
    assert total.parts["pose"].distances.quantile(0.9) == pytest.approx(2, rel=1e-3)
    assert splits[0].parts["pose"].num_frames == 4, "what is summed up stays as it is"
    assert total.to_dict()["parts"]["pose"]["max"] == 2


def test_frames_are_matched_by_their_place_in_the_source() -> None:
    one, other = shared_rows(np.array([0, 1, 2, 5]), np.array([1, 2, 3, 4, 5]))
    assert (one.tolist(), other.tolist()) == ([1, 2, 3], [0, 1, 4])
    one, other = shared_rows(np.array([3, 4]), np.array([3, 4]))
    assert (one.tolist(), other.tolist()) == ([0, 1], [0, 1])
