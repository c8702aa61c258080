from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from posemill.training.data.dataset_cache import pack, unpack


class Pair(NamedTuple):
    """Would come back as a plain tuple."""

    one: int
    other: int


def assert_same(one: Any, other: Any) -> None:
    """Compare nested values with their types."""
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, (tuple, list)):
        assert len(one) == len(other)
        for part, its in zip(one, other, strict=True):
            assert_same(part, its)
    elif isinstance(one, (torch.Tensor, np.ndarray, np.generic)):
        assert (one.dtype, tuple(one.shape)) == (other.dtype, tuple(other.shape))
        assert bool((one == other).all())
    else:
        assert one == other


def test_nested_samples_come_back_with_types_and_shapes() -> None:
    sample = (
        np.arange(12, dtype=np.uint8).reshape(3, 4),
        {"mask": torch.eye(3, dtype=torch.bool), "half": torch.ones(2).bfloat16(),
         7: [np.float32(0.1), np.array("text"), np.zeros((0, 3))]},
        torch.tensor(3.0, requires_grad=True).detach(), torch.zeros(2, 0),
        "name", 4, 2.5, True, None, (), {},
        np.arange(6).reshape(2, 3).T,
    )  # fmt: skip
    assert_same(unpack(pack(sample)), sample)
    assert_same(unpack(pack(np.float64("-inf"))), np.float64("-inf"))


def test_what_comes_back_may_be_changed() -> None:
    data = pack((np.zeros(3), torch.zeros(3)))
    array, tensor = unpack(data)
    array += 1
    tensor += 1
    assert not unpack(data)[0].any()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ((1, {"picture": object()}), r"\[1\]\['picture'\] is a object, which cannot be kept"),
        (Pair(1, 2), r"the sample is a .*Pair, which cannot be kept"),
        ([np.array([None])], r"\[0\] is a numpy.ndarray, which cannot be kept"),
        ({(1, 2): 3}, "the sample: expected names or numbers as keys of a dict"),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_named_with_its_place(value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        pack(value)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\xff" * 40, pack(np.zeros(9))[:-1], (2).to_bytes(8, "little") + b"{}",
        (30).to_bytes(8, "little") + b'{"array": ["|O", [1]]}'.ljust(30) + bytes(64),
        (30).to_bytes(8, "little") + b'{"tensor": ["nn", [1]]}'.ljust(30) + bytes(64),
        (9 * 9000).to_bytes(8, "little") + b'{"list":[' * 9000,
    ],
)  # fmt: skip
def test_other_bytes_are_no_sample(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a packed sample"):
        unpack(data)
