"""Small TFLite files, written on the spot, as the converter reads them."""

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from made_up_networks import TfliteMaker

from posemill.errors import WeightsError
from posemill.weights.tflite_graph import Node

CODES = schema.BuiltinOperator


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("dilationHFactor", CODES.CONV_2D, "dilated convolutions are not known to this converter"),
        ("dilationWFactor", CODES.CONV_2D, "dilated convolutions are not known to this converter"),
        ("strideH", CODES.COS, r"small.tflite: operator COS is not one this converter"),
    ],
)
def test_an_operator_that_is_not_known_is_named(name, code, message, tmp_path):
    maker, options = TfliteMaker(), schema.Conv2DOptionsT()
    options.strideH, options.strideW, options.dilationHFactor, options.dilationWFactor = 1, 2, 1, 1
    setattr(options, name, 2)
    inputs = [0, maker.constant(np.ones((2, 3, 3, 3), np.float32))]
    out = maker.operator(code, inputs, (1, 6, 4, 2), options)
    with pytest.raises(WeightsError, match=message):
        maker.read(tmp_path, out)


SLICE = ((0, 0, 0, 0), (1, 6, 8, 2), (1, 1, 1, 1))


@pytest.mark.parametrize(
    ("code", "constants", "shape", "options", "op"),
    [
        (CODES.RESIZE_BILINEAR, [(12, 16)], (1, 12, 16, 3), (True, False), "Resize"),
        (CODES.RESIZE_BILINEAR, [(12, 16)], (1, 12, 16, 3), (False, False), ""),
        (CODES.RESIZE_BILINEAR, [(12, 16)], (1, 12, 16, 3), (True, True), ""),
        (CODES.STRIDED_SLICE, SLICE, (1, 6, 8, 2), None, "FirstChannels"),
        (CODES.STRIDED_SLICE, [(0, 0, 0, 1), *SLICE[1:]], (1, 6, 8, 2), None, ""),
        (CODES.STRIDED_SLICE, [SLICE[0], (1, 5, 8, 2), SLICE[2]], (1, 6, 8, 2), None, ""),
        (CODES.STRIDED_SLICE, [*SLICE[:2], (1, 1, 1, 2)], (1, 6, 8, 2), None, ""),
        (CODES.MEAN, [(1, 2)], (1, 3), None, "SpatialMean"),
        (CODES.MEAN, [(1, 3)], (1, 3), None, ""),
        (CODES.MEAN, [(1, 2)], (1, 1, 1, 3), None, ""),
    ],
)
def test_only_half_pixel_resizing_first_channels_and_means_over_the_map_are_known(
    tmp_path, code, constants, shape, options, op
):
    maker, resizing = TfliteMaker(), schema.ResizeBilinearOptionsT()
    if options:
        resizing.halfPixelCenters, resizing.alignCorners = options
    inputs = [0, *(maker.constant(np.array(each, np.int32)) for each in constants)]
    out = maker.operator(code, inputs, shape, resizing if options else None)
    if op:
        assert maker.read(tmp_path, out).nodes == [Node(op, [0], [out])]
        return
    with pytest.raises(WeightsError, match=r"only .* known"):
        maker.read(tmp_path, out)


def test_half_precision_becomes_single(tmp_path):
    maker = TfliteMaker()
    half = maker.constant(np.array([[1.5, -2.25]], np.float16))
    out = maker.operator(CODES.DEQUANTIZE, [half], (1, 2))
    graph = maker.read(tmp_path, out)
    assert graph.nodes == []
    assert graph.constants[out].dtype == np.float32
    np.testing.assert_array_equal(graph.constants[out], [[1.5, -2.25]])
