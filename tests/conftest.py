"""Fixtures shared by all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).parent.parent.parent / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """Material that is not part of the project; tests that need it skip without it."""
    if not SHARED.is_dir():
        pytest.skip(f"no {SHARED}: material kept outside of the project")
    return SHARED
