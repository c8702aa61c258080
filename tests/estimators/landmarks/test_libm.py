"""Sine, cosine, arctangent and exp, against the C library and against exact values."""

import ctypes
import ctypes.util
import math
import platform

import numpy as np
import pytest

from posemill.estimators.landmarks.libm import atan2, cos_sin, exp, f32, sigmoid

needs_glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="stock on Linux uses glibc"
)


def c_function(name, num_arguments=1):
    function = getattr(ctypes.CDLL(ctypes.util.find_library("m")), name)
    function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float] * num_arguments
    return function


def test_the_arctangent_is_within_one_unit_in_the_last_place():
    seams = (2.0**-31, 0.01, 0.4374, 0.4376, 0.6874, 0.6876, 1.1874, 1.1876, 2.4374, 2.4376, 50,
             2.0**61)  # fmt: skip
    values = [*np.random.default_rng(0).normal(size=(2000, 2)).astype(np.float32) * 100]
    values += [(f32(y * ratio), f32(x)) for ratio in seams for y in (1, -1) for x in (1, -1)]
    for y, x in values:
        exact = math.atan2(float(y), float(x))
        assert abs(float(atan2(y, x)) - exact) <= 2 * float(np.spacing(f32(abs(exact))))
    assert atan2(f32(0), f32(-1)) == f32(math.pi)
    assert atan2(f32(-2), f32(0)) == f32(-math.pi / 2)


@needs_glibc
def test_the_arctangent_rounds_as_the_c_library_does():
    theirs = c_function("atan2f", 2)
    rng = np.random.default_rng(1)
    pairs = rng.normal(size=(20_000, 2)) * np.exp2(rng.integers(-8, 9, (20_000, 2)))
    # Newer C libraries round better than the one under stock: nearly all bits are the same.
    different = sum(float(atan2(y, x)) != theirs(y, x) for y, x in pairs.astype(np.float32))
    assert different < len(pairs) / 4


@needs_glibc
def test_sine_and_cosine_round_as_the_c_library_does():
    cosine, sine = c_function("cosf"), c_function("sinf")
    angles = np.random.default_rng(0).uniform(-7, 7, 20_000).astype(np.float32)
    mine = [tuple(map(float, cos_sin(angle))) for angle in angles]
    assert mine == [(cosine(angle), sine(angle)) for angle in angles]
    rounded = [(float(f32(math.cos(angle))), float(f32(math.sin(angle)))) for angle in angles]
    assert mine != rounded


def test_the_sigmoid_is_flat_far_away_and_exp_of_many_is_that_of_some():
    values = sigmoid(np.array([-1000, 0, 2, 1000], np.float32))
    np.testing.assert_allclose(values, [0, 0.5, 1 / (1 + math.exp(-2)), 1], rtol=1e-6)
    values = np.linspace(-110, 95, 1_000_000).astype(np.float32)
    many = exp(values)
    for step, length in ((1, 4000), (100, 10)):
        parts = values[::step].reshape(-1, length)
        found = np.concatenate([exp(part) for part in parts])
        np.testing.assert_array_equal(many[::step].view(np.int32), found.view(np.int32))


@needs_glibc
def test_exp_rounds_as_the_c_library_does():
    theirs = c_function("expf")
    values = np.random.default_rng(0).uniform(-110, 90, 50_000).astype(np.float32)
    ours = exp(values)
    assert ours.tolist() == [theirs(value) for value in values]
    # Rounding the exact value is not the same.
    with np.errstate(over="ignore"):
        assert (ours != np.exp(values.astype(np.float64)).astype(np.float32)).any()
