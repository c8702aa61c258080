"""Pictures and videos made on the spot, so that every pixel is known."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from posemill.testing.videos import VIDEO_KINDS, write_kind


@pytest.fixture(params=list(VIDEO_KINDS))
def any_video(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A video of 30 numbered frames, in several containers and codecs."""
    return write_kind(tmp_path, request.param)


@contextlib.contextmanager
def _without_permission(path: Path) -> Iterator[None]:
    """Take the right to read a file away; skip where that means nothing (root)."""
    path.chmod(0)
    try:
        try:
            path.open("rb").close()
        except PermissionError:
            yield
        else:
            pytest.skip("this user may read everything")
    finally:
        path.chmod(0o600)


@pytest.fixture
def without_permission() -> Callable[[Path], contextlib.AbstractContextManager[None]]:
    """A context in which a file cannot be read."""
    return _without_permission


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what is found out about videos out of the user's cache."""
    monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path / "own-cache"))
