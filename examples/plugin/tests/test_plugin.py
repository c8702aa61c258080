"""What posemill asks of every engine and format, and what only these do."""

import numpy as np
from posemill_silhouette.engine import SilhouetteEngine

from posemill.testing import EngineContract, FormatContract


class TestEngine(EngineContract):
    name = "silhouette"


class TestFormat(FormatContract):
    name = "jsonl"


def test_the_ends_of_a_bright_box_are_found() -> None:
    frame = np.zeros((10, 20, 3), np.uint8)
    frame[2:5, 4:10] = 200
    found = SilhouetteEngine().estimate([frame, frame * 0])
    x, y = found.points[0, :, 0] * 20, found.points[0, :, 1] * 10
    np.testing.assert_allclose([x[4], y[4]], [7, 3.5], rtol=1e-6)
    np.testing.assert_allclose([y[0], y[1], x[2], x[3]], [2.5, 4.5, 9.5, 4.5], rtol=1e-6)
    assert np.isnan(found.points[1]).all()
