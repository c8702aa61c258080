"""Which of the 21 points of a hand are joined by lines."""

from __future__ import annotations

from itertools import pairwise

HAND_PALM_CONNECTIONS = ((0, 1), (0, 5), (9, 13), (13, 17), (5, 9), (0, 17))
(
    HAND_THUMB_CONNECTIONS,
    HAND_INDEX_FINGER_CONNECTIONS,
    HAND_MIDDLE_FINGER_CONNECTIONS,
    HAND_RING_FINGER_CONNECTIONS,
    HAND_PINKY_FINGER_CONNECTIONS,
) = (tuple(pairwise(range(first, first + 4))) for first in range(1, 21, 4))
HAND_CONNECTIONS: frozenset[tuple[int, int]] = frozenset().union(
    HAND_PALM_CONNECTIONS, HAND_THUMB_CONNECTIONS, HAND_INDEX_FINGER_CONNECTIONS,
    HAND_MIDDLE_FINGER_CONNECTIONS, HAND_RING_FINGER_CONNECTIONS, HAND_PINKY_FINGER_CONNECTIONS,
)  # fmt: skip
