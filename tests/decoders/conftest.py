"""Pictures and videos made on the spot, so that every pixel is known."""

import contextlib

import pytest

from posemill.testing.videos import VIDEO_KINDS, write_kind


@pytest.fixture(params=list(VIDEO_KINDS))
def any_video(request, tmp_path):
    """A video of 30 numbered frames, in several containers and codecs."""
    return write_kind(tmp_path, request.param)


@contextlib.contextmanager
def _without_permission(path):
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
def without_permission():
    return _without_permission


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Keep what is found out about videos out of the user's cache."""
    monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path / "own-cache"))
