"""Clips of made-up people."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from made_up_people import make_person

from posemill.records import PoseClip


@pytest.fixture
def make_clip() -> Callable[..., PoseClip]:
    """A function that returns clips of a made-up person; see `make_person`."""
    return make_person
