"""What lies between the pieces of the refined face; the whole is compared in test_parity."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from posemill.estimators.landmarks.attention import (
    REGIONS,
    AttentionNetwork,
    back,
    sample,
    settle_irises,
    windows_around,
)
from posemill.weights.networks import load_onnx
from posemill.weights.onnx_writer import INPUT_NAME

_, RIGHT_EYE, LEFT_EYE = REGIONS


def mesh(width: float, height: float, *, degrees: float = 0.0) -> np.ndarray:
    """Return 468 points on a turned ellipse around (20, 24); the lips' ends are its ends."""
    angle = np.linspace(0, 2 * np.pi, 468)
    points = np.stack([width / 2 * np.cos(angle), height / 2 * np.sin(angle)], 1)
    points[[61, 291]] = [[-width / 2, 0], [width / 2, 0]]
    points[[0, 17]] = [[0, -height / 2], [0, height / 2]]
    turn = np.radians(degrees)
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    return (points @ rotation.T + [20, 24]).astype(np.float32)


@pytest.mark.parametrize("degrees", [0, 30, -100, 180])
def test_a_window_lies_around_its_points_with_a_margin_and_turns_with_them(degrees: float) -> None:
    matrix = windows_around(mesh(8, 4, degrees=degrees))[0].astype(np.float64)
    middle = matrix @ [8, 8, 1]
    np.testing.assert_allclose(middle, [20, 24], atol=1e-4)
    right, down = matrix @ [16, 8, 1] - middle, matrix @ [8, 16, 1] - middle
    turn = np.radians(degrees)
    # half of 1.5 times the width and the height
    np.testing.assert_allclose(right, 6 * np.array([np.cos(turn), np.sin(turn)]), atol=1e-4)
    np.testing.assert_allclose(down, 3 * np.array([-np.sin(turn), np.cos(turn)]), atol=1e-4)


def test_a_window_of_whole_cells_is_a_part_of_the_map() -> None:
    features = np.random.default_rng(1).normal(size=(48, 48, 4)).astype(np.float32)
    window = np.array([[1, 0, 5], [0, 1, 9]], np.float32)
    np.testing.assert_array_equal(sample(features, window[None])[0], features[9:25, 5:21])


def test_between_cells_features_are_blended_and_outside_of_the_map_they_are_nothing() -> None:
    y, x = np.mgrid[:48, :48]
    features = np.stack([x, y], -1).astype(np.float32)
    window = np.array([[0.5, 0, 40.25], [0, 0.5, -1]], np.float32)
    (found,) = sample(features, window[None])
    inside = found[4:, :13]
    expected_x = 40.25 + 0.5 * (np.arange(13) + 0.5) - 0.5
    np.testing.assert_allclose(inside[..., 0], np.tile(expected_x, (12, 1)))
    np.testing.assert_allclose(inside[0, :, 1], -1 + 0.5 * 4.5 - 0.5)
    assert not found[:2].any()  # above the map
    assert not found[:, 15].any()  # right of it: 47.5 is beyond the last cell's middle


def test_points_of_a_window_come_back_in_pixels_of_the_crop() -> None:
    window = np.array([[0, -1, 3], [1, 0, 5]], np.float32)
    found = back(np.array([[2, 7]], np.float32), window[None])
    np.testing.assert_array_equal(found, [[3 * 4 - 7, 5 * 4 + 2]])


def test_irises_have_the_mean_depth_of_their_eye() -> None:
    points = np.zeros((478, 3), np.float32)
    points[RIGHT_EYE.points[:16], 2] = np.arange(16)
    points[LEFT_EYE.points[:16], 2] = 2
    settle_irises(points)
    np.testing.assert_array_equal(points[468:, 2], [7.5] * 5 + [2] * 5)


def test_a_batch_of_faces_gives_what_each_gives_alone(
    need_model: Callable[[str], Path], photo: np.ndarray
) -> None:
    """As on a GPU, where networks take batches."""
    need_model("face_landmark_with_attention")
    network = AttentionNetwork(BatchedPiece)
    crops = np.stack([photo[50:242, 130:322], photo[40:232, 120:312], photo[:192, :192]])
    points, logits = network.run(crops)
    assert points.shape == (3, 478 * 3)
    assert logits[0] > 0 > logits[2]  # a face, and none
    for row in range(3):
        alone, logit = network.run(crops[row : row + 1])
        np.testing.assert_allclose(points[row], alone[0], atol=1e-2)
        np.testing.assert_allclose(logits[row], logit[0], atol=1e-3)


class BatchedPiece:
    """A piece on ONNX Runtime, with batches of any size."""

    runs_batches = True

    def __init__(self, name: str) -> None:
        self._session = onnxruntime.InferenceSession(load_onnx(name))
        self.size = self._session.get_inputs()[0].shape[1]

    def run(self, pixels: np.ndarray) -> list[np.ndarray]:
        return list(self._session.run(None, {INPUT_NAME: pixels}))


def test_the_regions_are_those_of_the_model_file() -> None:
    assert [len(set(region.points)) for region in REGIONS] == [80, 71, 71]
    for region in REGIONS:
        assert {*region.ends} < {*region.points}
    assert list(LEFT_EYE.points[:5]) == [263, 249, 390, 373, 374]
    assert sum(map(int, LEFT_EYE.points)) == 25437
