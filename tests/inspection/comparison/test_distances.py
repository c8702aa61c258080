import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posemill.inspection.comparison.measure import BAR_LABELS, PartAgreement, shared_rows


def agreement(pixels, has_one=(), has_other=()):
    has = (np.array(flags, bool) for flags in (has_one, has_other))
    return PartAgreement.of(*has, np.float32(pixels))


@settings(max_examples=30)
@given(
    st.lists(st.floats(2**-19, 2**19, width=32), min_size=1, max_size=60),
    st.sampled_from([0.0, 0.25, 0.5, 0.95, 1.0]),
)
def test_a_quantile_is_that_of_numpy_to_a_thousandth(values, share):
    pixels = np.array(values, np.float32)
    part = PartAgreement()
    for piece in np.array_split(pixels, 3):
        part += agreement(piece)
    expected = np.quantile(pixels.astype(np.float64), share)
    assert part.quantile(share) == pytest.approx(expected, rel=1e-3)
    assert part.largest == pixels.max()
    assert part.bins.sum() == sum(part.bars()) == len(values)


def test_nothing_has_no_quantile_and_bars_are_named_by_where_they_end():
    part = agreement(np.full((3, 2), np.nan))
    assert (part.quantile(0.5), part.to_dict()["max"], part.to_dict()["agree"]) == (None,) * 3
    part += agreement([0.0, 1e-7, 1e-9])
    assert part.quantile(0.95) == 0.0
    part += agreement(np.full(9, 1e30))
    assert part.quantile(0.5) > 2**19
    assert part.largest == pytest.approx(1e30)
    assert " ".join(BAR_LABELS) == "<0.01 <0.03 <0.1 <0.3 <1 <3 <10 <30 <100 >100"
    part = agreement([0, 0.009, 0.02, 0.5, 0.5, 99, 101, 5000])
    assert part.bars() == [2, 1, 0, 0, 2, 0, 0, 0, 1, 2]


def test_both_found_and_both_missed_agree_and_splits_add_up():
    first = agreement([1, 3], [True, True, False, False, True], [True, False, False, True, True])
    found = first.to_dict()
    numbers = [found[name] for name in ("num_frames", "one_has", "other_has", "both")]
    assert numbers == [5, 3, 3, 2]
    assert (found["agree"], found["max"]) == (pytest.approx(3 / 5), 3)
    first += agreement([2] * 8, [True] * 3, [True, False, False])
    found = first.to_dict()
    assert (found["one_has"], found["other_has"], found["both"], found["max"]) == (6, 4, 3, 3)
    assert found["median"] == pytest.approx(2, rel=1e-3)


def test_frames_are_matched_by_their_place_in_the_source():
    one, other = shared_rows(np.array([0, 1, 2, 5]), np.array([1, 2, 3, 4, 5]))
    assert (one.tolist(), other.tolist()) == ([1, 2, 3], [0, 1, 4])
    one, other = shared_rows(np.array([3, 4]), np.array([3, 4]))
    assert (one.tolist(), other.tolist()) == ([0, 1], [0, 1])
