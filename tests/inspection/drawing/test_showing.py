"""A picture in the system's viewer."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest
from PIL import Image

from posemill.errors import PosemillError
from posemill.inspection.drawing.picture_files import open_viewer

PICTURE = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)


@pytest.mark.parametrize(
    ("platform", "variables", "is_shown"),
    [
        ("linux", {}, False),
        ("linux", {"DISPLAY": ":0"}, True),
        ("linux", {"WAYLAND_DISPLAY": "wayland-0"}, True),
        ("darwin", {}, True),
    ],
)
def test_the_viewer_opens_where_there_is_a_screen(platform, variables, is_shown, monkeypatch):
    shown: list[np.ndarray] = []
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(os, "environ", variables)
    monkeypatch.setattr(Image.Image, "show", lambda image: shown.append(np.asarray(image)))
    if is_shown:
        open_viewer(PICTURE)
        np.testing.assert_array_equal(shown[0], PICTURE)
    else:
        with pytest.raises(PosemillError, match="there is no screen here; write a file"):
            open_viewer(PICTURE)
        assert not shown
