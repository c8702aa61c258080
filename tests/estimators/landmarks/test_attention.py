"""What lies between the pieces of the refined face; the whole is compared in test_parity."""

import numpy as np
import onnxruntime

from posemill.estimators.landmarks.attention import AttentionNetwork, sample
from posemill.weights.networks import load_onnx
from posemill.weights.onnx_writer import INPUT_NAME


def test_between_cells_features_are_blended_and_outside_of_the_map_they_are_nothing():
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


def test_a_batch_of_faces_gives_what_each_gives_alone(need_model, photo):
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

    def __init__(self, name):
        self._session = onnxruntime.InferenceSession(load_onnx(name))
        self.size = self._session.get_inputs()[0].shape[1]

    def run(self, pixels):
        return list(self._session.run(None, {INPUT_NAME: pixels}))
