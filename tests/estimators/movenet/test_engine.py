"""The engine: with two small networks that see coloured spots, and with the published ones."""

from pathlib import Path

import numpy as np
import pytest

from posemill.errors import MissingExtraError
from posemill.estimators import open_estimator
from posemill.estimators.movenet import networks
from posemill.weights.tensorflow_graph import (
    CHANNELS_FIRST,
    Picture,
    TensorFlowGraph,
    TensorFlowNode,
    Value,
    export_graph,
)

RED, GREEN, BLUE = range(3)


def conv(name, source, side):
    window = {"strides": [1, side, side, 1], "padding": "VALID", "fused_ops": ["BiasAdd"]}
    return TensorFlowNode(name, "_FusedConv2D", (source, f"{name}/w", f"{name}/b"), window)


def spots_detector():
    """A person is a red cell of 8 pixels; the box reaches two cells to each side."""
    constants = {"order": np.array([0, 2, 3, 1])}
    nodes = [TensorFlowNode("last", "Transpose", ("in", "order"))]
    for stride in (8, 16, 32):
        weights = np.zeros((stride, stride, 3, 124), np.float32)
        bias = np.full(124, -20, np.float32)
        bias[80 + 2 :: 11] = 0
        if stride == 8:
            bias[0] = -10
            weights[..., [2, 1, 0], 0] = np.array([20, -40, -40]) / 255 / stride**2  # BGR
        constants |= {f"out{stride}/w": weights, f"out{stride}/b": bias}
        nodes.append(conv(f"out{stride}", "last", stride))
    graph = TensorFlowGraph(Path("spots.json"), nodes, constants)
    return export_graph(graph, start=Value("in", CHANNELS_FIRST), picture=Picture(416),
                        outputs=[f"out{stride}" for stride in (8, 16, 32)])  # fmt: skip


def spots_points(size):
    """Even points are the green spot, odd ones the blue spot; in the middle of a cell of 4."""
    constants = {}
    nodes = []
    for name, channels in (("heat", 17), ("centre", 1), ("ways", 34), ("offsets", 34)):
        weights, bias = np.zeros((4, 4, 3, channels), np.float32), np.zeros(channels, np.float32)
        if name == "heat":
            weights[..., GREEN, ::2] = weights[..., BLUE, 1::2] = 12 / 255 / 16
            bias[:] = -6
        if name == "offsets":
            bias[:] = 0.5
        constants |= {f"{name}/w": weights, f"{name}/b": bias}
        nodes.append(conv(name, "in", 4))
    nodes.append(TensorFlowNode("sigmoid", "Sigmoid", ("heat",)))
    graph = TensorFlowGraph(Path("spots.json"), nodes, constants)
    return export_graph(graph, start=Value("in"), picture=Picture(size),
                        outputs=["sigmoid", "centre", "ways", "offsets"])  # fmt: skip


@pytest.fixture
def spots(monkeypatch):
    """The engine's networks are the small ones."""
    pytest.importorskip("onnxruntime")
    models = {"nanodet": spots_detector(), "movenet-thunder": spots_points(256),
              "movenet-lightning": spots_points(192)}  # fmt: skip
    monkeypatch.setattr(networks, "load_network", models.__getitem__)


def crowd(*people, size_wh=(416, 312)):
    """Return a picture of people at cells `(column, row)`, green and blue `apart` pixels apart."""
    frame = np.zeros((size_wh[1], size_wh[0], 3), np.uint8)
    for column, row, apart in people:
        x, y = column * 8, row * 8
        frame[y : y + 8, x : x + 8, RED] = 255
        for channel, way in ((GREEN, -apart), (BLUE, apart)):
            x_spot, y_spot = x + 4 + way, y + 4 - way
            frame[max(y_spot - 1, 0) : y_spot + 2, max(x_spot - 1, 0) : x_spot + 2, channel] = 255
    return frame


def everyone(found, row=0):
    """Return `(people, 17, 2)` in pixels, the first person's points first."""
    others = found.others.of_frames(row, row + 1).points
    return np.concatenate([found.points[row : row + 1], others])[..., :2] * found.sizes_wh[row]


def test_people_are_found_where_they_are_the_largest_first(spots):
    frame = crowd((5, 6, 9), (20, 8, 13), (35, 25, 11))
    for network in ("thunder", "lightning"):
        found = open_estimator("movenet", network=network).estimate([frame])
        people = everyone(found)
        assert people.shape == (3, 17, 2)
        for person, (column, row, apart) in zip(
            people, ((20, 8, 13), (35, 25, 11), (5, 6, 9)), strict=True
        ):
            x, y = column * 8 + 4.5, row * 8 + 4.5
            # Anywhere in a spot of three pixels.
            np.testing.assert_allclose(person[::2] - [x - apart, y + apart], 0, atol=1.5)
            np.testing.assert_allclose(person[1::2] - [x + apart, y - apart], 0, atol=1.5)
    assert ((found.scores > 0) & (found.scores <= 1)).all()


def test_forty_people_are_forty_alone_and_among_others(spots):
    people = [(4 + 6 * column, 4 + 6 * row, 8) for row in range(5) for column in range(8)]
    engine = open_estimator("movenet", network="lightning")
    many, one, nobody = crowd(*people), crowd((20, 8, 13)), crowd()
    together = engine.estimate([nobody, many, one])
    assert together.others.counts.tolist() == [0, 39, 0]
    assert np.isnan(together.points[0]).all()
    np.testing.assert_array_equal(everyone(together, 1), everyone(engine.estimate([many])))
    turned = engine.estimate([one, many, nobody])
    np.testing.assert_array_equal(everyone(together, 1), everyone(turned, 1))
    np.testing.assert_array_equal(everyone(together, 2), everyone(turned, 0))


def test_a_person_over_the_edge_keeps_to_their_place_in_the_picture(spots):
    frame = crowd((0, 0, 9), (51, 30, 9))
    people = everyone(open_estimator("movenet").estimate([frame]))
    assert len(people) == 2
    corner = people[np.nanargmin(np.nanmean(people[..., 0], axis=1))]
    # Of the one in the corner the blue spot, above the picture, is not there.
    np.testing.assert_allclose(corner[::2].mean(0)[1], 4.5 + 9, atol=1.5)


def test_points_that_nobody_sees_are_missing_and_a_pose_without_any_is_nobody(spots):
    frame = crowd((20, 8, 13))
    frame[..., BLUE] = 0
    found = open_estimator("movenet").estimate([frame])
    assert np.isnan(found.points[0, 1::2]).all()
    assert (found.scores[0, 1::2] == 0).all()
    assert not np.isnan(found.points[0, ::2]).any()
    frame[..., GREEN] = 0
    assert np.isnan(open_estimator("movenet").estimate([frame]).points).all()
    for strict in ({"min_box": 1.0}, {"min_point": 1.0}, {"min_person": 1.0}):
        found = open_estimator("movenet", **strict).estimate([crowd((20, 8, 13))])
        assert np.isnan(found.points).all()


@pytest.mark.parametrize(("runtime", "extra"), [("onnxruntime", "onnx"), ("openvino", "openvino")])
def test_without_its_runtime_the_pip_line_is_said(monkeypatch, runtime, extra):
    monkeypatch.setattr(networks, "load_network", lambda name: pytest.fail("fetched"))
    monkeypatch.setitem(__import__("sys").modules, runtime, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'posemill\[{extra}\]'"):
        open_estimator("movenet", runtime=runtime)


@pytest.fixture
def published(need_model):
    """Returns a function that opens the engine with the published networks."""
    pytest.importorskip("onnxruntime")
    for name in ("nanodet", "movenet-thunder", "movenet-lightning"):
        need_model(name)
        need_model(f"{name}-weights")
    return lambda **options: open_estimator("movenet", **options)


def test_a_network_comes_from_its_two_published_files(published):
    # What engines open may lie converted in the cache, by an older posemill.
    assert networks.convert("movenet-lightning") == networks.load_network("movenet-lightning")


@pytest.mark.parametrize("network", ["thunder", "lightning"])
def test_half_a_person_is_one_with_the_points_that_can_be_seen_and_nothing_is_nobody(
    published, photo, network
):
    grey = np.full((240, 320, 3), 128, np.uint8)
    noise = np.random.default_rng(0).integers(0, 256, (240, 320, 3), np.uint8)
    found = published(network=network).estimate([photo, photo[:, ::-1], grey, noise, grey[:1, :1]])
    assert not found.others.counts[[0, 2, 3, 4]].any()
    nose, left_shoulder, right_shoulder = (found.points[:2, point, :2] * 512 for point in (0, 5, 6))
    np.testing.assert_allclose(nose, [[221, 120], [512 - 221, 120]], atol=12)
    assert left_shoulder[0, 0] > 250 > 180 > right_shoulder[0, 0]
    assert left_shoulder[1, 0] > right_shoulder[1, 0]  # mirrored, left is still theirs
    # Knees and ankles are below the picture.
    assert found.scores[0, 13:].max() < 0.15 < found.scores[0, [0, 5, 6]].min()
    assert np.isnan(found.points[2:]).all()
    assert not found.scores[2:].any()
