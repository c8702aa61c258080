"""Sine, cosine, arctangent and exp in float32, to the bit as the C library under stock gives them.

The arctangent (FDLIBM's polynomial) is off by one unit in the last place for every sixth argument,
sine and cosine (short polynomials in float64) for every eightieth, exp for one in 1,700; rectangles
inherit that. Rounding the exact values instead would move some pixels of their crops.
"""

from __future__ import annotations

import math

import cv2
import numpy as np

from posemill.records import FloatArray

f32 = np.float32

# Odd and even coefficients of atan(x) = x - x·(…), highest power first.
_ODD = tuple(map(f32, (-3.6531571299e-02, -5.8335702866e-02, -7.6918758452e-02,
                       -1.1111110449e-01, -2.0000000298e-01)))  # fmt: skip
_EVEN = tuple(map(f32, (1.6285819933e-02, 4.9768779427e-02, 6.6610731184e-02,
                        9.0908870101e-02, 1.4285714924e-01, 3.3333334327e-01)))  # fmt: skip
# atan of 1/2, 1, 3/2 and infinity, each as a float32 and the rest.
_HIGH = tuple(map(f32, (4.6364760399e-01, 7.8539812565e-01, 9.8279368877e-01, 1.5707962513e00)))
_LOW = tuple(map(f32, (5.0121582440e-09, 3.7748947079e-08, 3.4473217170e-08, 7.5497894159e-08)))
_ONE, _TWO, _THREE_HALVES = f32(1), f32(2), f32(1.5)
_PI, _PI_REST = f32(3.1415927410e00), f32(-8.7422776573e-08)
# sin(x) = x + x³·(…) and cos(x) = 1 + x²·(…) within an eighth of a turn, lowest power first.
_SINE = ("-0x1.555545995a603p-3", "0x1.1107605230bc4p-7", "-0x1.994eb3774cf24p-13")
_COSINE = ("-0x1.ffffffd0c621cp-2", "0x1.55553e1068f19p-5", "-0x1.6c087e89a359dp-10",
           "0x1.99343027bf8c3p-16")  # fmt: skip
_S1, _S2, _S3 = map(float.fromhex, _SINE)
_C1, _C2, _C3, _C4 = map(float.fromhex, _COSINE)
_QUARTER_TURN = math.pi / 2
# 2^(r/32) = 1 + r·(…) for r within -1/2 to 1/2, lowest power first.
_PARTS_BITS = 5
_PARTS = 1 << _PARTS_BITS
_E1 = float.fromhex("0x1.62e42ff0c52d6p-1") / _PARTS
_E2 = float.fromhex("0x1.ebfce50fac4f3p-3") / _PARTS**2
_E3 = float.fromhex("0x1.c6af84b912394p-5") / _PARTS**3
_PARTS_PER_E = _PARTS * float.fromhex("0x1.71547652b82fep+0")
_ROOTS_LIST = [2.0 ** (part / _PARTS) for part in range(_PARTS)]
_ROOTS = np.array(_ROOTS_LIST)
# Up to so many values are quicker one by one; from so many on OpenCV's exp of float64 is, in pieces
# that stay in the processor's cache. The C library's lies at most so many units of its last place
# away, so only values this near to the middle of two float32 may be rounded the other way.
_FEW, _MANY, _PIECE = 12, 4096, 1 << 14
_DOUBT = 1 << 21
_REST_BITS = 29  # of a float64, below those of a float32
_TINY = f32(2.0**-120)
_LARGEST = 87.0  # in between, no result is infinite or has fewer bits


def exp(values: FloatArray) -> FloatArray:
    """Return e to the power of each value."""
    if values.size <= _FEW:
        numbers = values.reshape(-1).tolist()
        if all(-_LARGEST < number < _LARGEST for number in numbers):
            return np.array([_exp_of(number) for number in numbers], f32).reshape(values.shape)
    if values.size < _MANY:
        return _exp(values)
    result = np.empty(values.size, f32)
    flat = values.reshape(-1)
    for start in range(0, len(flat), _PIECE):
        piece = slice(start, start + _PIECE)
        result[piece] = _exp_of_many(flat[piece])
    return result.reshape(values.shape)


def _exp_of(number: float) -> float:
    """Return e to the power of a number by the C library's steps, before it is rounded."""
    parts = number * _PARTS_PER_E
    whole = round(parts)
    rest = parts - whole
    fraction = (_E3 * rest + _E2) * (rest * rest) + (_E1 * rest + 1)
    return math.ldexp(fraction * _ROOTS_LIST[whole & (_PARTS - 1)], whole >> _PARTS_BITS)


def _exp_of_many(values: FloatArray) -> FloatArray:
    powers = cv2.exp(values.astype(np.float64)).reshape(-1)
    with np.errstate(over="ignore", under="ignore"):
        result = powers.astype(f32)
    rest = powers.view(np.int64)
    rest &= (1 << _REST_BITS) - 1
    rest -= (1 << (_REST_BITS - 1)) - _DOUBT
    is_doubtful = rest.view(np.uint64) <= 2 * _DOUBT
    is_doubtful |= result < _TINY  # such float32 have fewer bits
    places = is_doubtful.nonzero()[0]
    result[places] = _exp(values[places])
    return result


def _exp(values: FloatArray) -> FloatArray:
    """Return e to the power of each value, by the C library's steps."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        parts = values.astype(np.float64) * _PARTS_PER_E
        whole = np.rint(parts)
        rest = parts - whole
        fraction = (_E3 * rest + _E2) * (rest * rest) + (_E1 * rest + 1)
        steps = whole.astype(np.int32)
        powers = np.ldexp(_ROOTS[steps & (_PARTS - 1)], steps >> _PARTS_BITS)
        result: FloatArray = (fraction * powers).astype(np.float32)
    return result


def sigmoid(logits: FloatArray) -> FloatArray:
    """Return 1 / (1 + exp(-logit)), each step rounded to float32."""
    one = f32(1)
    return one / (one + exp(-logits))


def cos_sin(angle: np.float32) -> tuple[np.float32, np.float32]:
    """Return cosine and sine of a finite angle of at most some turns."""
    quarters = round(float(angle) / _QUARTER_TURN)
    x = float(angle) - quarters * _QUARTER_TURN
    square = x * x
    cube = x * square
    sine = (x + cube * _S1) + cube * square * (_S2 + square * _S3)
    fourth = square * square
    cosine = ((1 + square * _C1) + fourth * _C2) + fourth * square * (_C3 + square * _C4)
    for _ in range(quarters % 4):
        cosine, sine = -sine, cosine
    return f32(cosine), f32(sine)


def atan2(y: np.float32, x: np.float32) -> np.float32:
    """Return the angle of the vector (x, y) in -pi to pi, for finite arguments."""
    if y == 0 or x == 0:
        return f32(math.atan2(y, x))
    ratio = abs(y / x)
    # Beyond these the division has no bits left to turn into an angle.
    angle = _HIGH[3] + f32(0.5) * _PI_REST if ratio > f32(2.0**60) else _atan(ratio)
    if x < 0:
        rest = angle - _PI_REST
        return _PI - rest if y > 0 else rest - _PI
    return angle if y > 0 else -angle


def _atan(value: np.float32) -> np.float32:
    """Return the arctangent of a value that is not negative."""
    if value < f32(0.4375):
        if value < f32(2.0**-29):
            return value
        reduced, step = value, -1
    elif value < f32(0.6875):
        reduced, step = (_TWO * value - _ONE) / (_TWO + value), 0
    elif value < f32(1.1875):
        reduced, step = (value - _ONE) / (value + _ONE), 1
    elif value < f32(2.4375):
        reduced, step = (value - _THREE_HALVES) / (_ONE + _THREE_HALVES * value), 2
    else:
        reduced, step = -_ONE / value, 3
    square = reduced * reduced
    fourth = square * square
    even = _EVEN[0]
    for coefficient in _EVEN[1:]:
        even = coefficient + fourth * even
    odd = _ODD[0]
    for coefficient in _ODD[1:]:
        odd = coefficient + fourth * odd
    correction = reduced * (square * even + fourth * odd)
    if step < 0:
        return reduced - correction
    return _HIGH[step] - ((correction - _LOW[step]) - reduced)
