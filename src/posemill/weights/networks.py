"""The networks engines run: some outputs of model files, as TFLite or converted to ONNX."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from posemill.files import atomic_path, cache_folder
from posemill.records import FloatArray
from posemill.weights.catalogue import get_pinned
from posemill.weights.onnx_export import export_onnx
from posemill.weights.pull import ensure_model
from posemill.weights.rewrites import rewrite
from posemill.weights.tflite_graph import read_graph
from posemill.weights.tflite_prune import prune

# Part of the cached file's name: raise it when the converter's result changes.
CONVERTER_VERSION = 2


@dataclass(frozen=True)
class NetworkSpec:
    """What is taken of a model file.

    Args:
        model: Name in the catalogue.
        outputs: Kept, in this order; all that only others need is left out.
        value_range: What the network expects black and white to be.
        piece: Of a model that is run in pieces: which one this is.
        start: The tensor inside of the model where this piece begins: it takes numbers, not
            pictures. None: it begins with the picture.
        splits_scalings: Whether LiteRT gets its 1x1 depthwise convolutions as two operators, which
            round as MediaPipe's do.
    """

    model: str
    outputs: tuple[str, ...]
    value_range: tuple[float, float] = (0.0, 1.0)
    piece: str = ""
    start: str | None = None
    splits_scalings: bool = False

    @property
    def name(self) -> str:
        """The name of the network: the model's, or the piece's."""
        return self.piece or self.model


_POSE_OUTPUTS = ("Identity", "Identity_1", "Identity_3", "Identity_4")
_ATTENTION = "face_landmark_with_attention"
_HAND_OUTPUTS = ("Identity", "Identity_1")
_HAND_FEATURES = "model_1/model/global_average_pooling2d/Mean"
_HAND_SIDE = "model_1/model/conv_handedness/MatMul;model_1/model/conv_handedness/BiasAdd"


def _attention(region: str, start: str, *outputs: str) -> NetworkSpec:
    """Return the piece that reads a window of 16 x 16 x 32 features: points (x, y) of a region."""
    return NetworkSpec(_ATTENTION, outputs, piece=f"face_attention_{region}", start=start)


def _with_mask(model: str) -> NetworkSpec:
    return NetworkSpec(model, (*_POSE_OUTPUTS, "Identity_2"), piece=f"{model}_with_mask")


def _with_side(model: str) -> NetworkSpec:
    outputs = (*_HAND_OUTPUTS, _HAND_FEATURES, "Identity_3")
    return NetworkSpec(model, outputs, piece=f"{model}_with_side")


_BODY_SIZES = ("full", "lite", "heavy")
NETWORKS = {
    spec.name: spec
    for spec in (
        # boxes with 4 points (2254, 12), logits (2254, 1)
        NetworkSpec("pose_detection", ("Identity", "Identity_1"), (-1.0, 1.0)),
        # 39 x (x, y, z, visibility, presence), score, heat maps (39, 64, 64), 39 x 3 in metres;
        # without the segmentation: a third of the time
        *(NetworkSpec(f"pose_landmark_{size}", _POSE_OUTPUTS) for size in _BODY_SIZES),
        # the same, and the segmentation (1, 256, 256)
        *(_with_mask(f"pose_landmark_{size}") for size in _BODY_SIZES),
        # two points
        NetworkSpec("hand_recrop", ("output_crop",), splits_scalings=True),
        # 21 x (x, y, z), score
        NetworkSpec("hand_landmark_full", _HAND_OUTPUTS),
        # the same, what `load_side_layer` tells left from right by, and 21 x 3 in metres
        _with_side("hand_landmark_full"),
        _with_side("hand_landmark_lite"),
        # boxes with 7 points (2016, 18), logits (2016, 1)
        NetworkSpec("palm_detection_full", ("Identity", "Identity_1")),
        NetworkSpec("palm_detection_lite", ("Identity", "Identity_1")),
        # boxes with 6 points (896, 16), logits (896, 1)
        NetworkSpec("face_detection_short_range", ("regressors", "classificators"), (-1.0, 1.0)),
        # boxes with 6 points (2304, 16), logits (2304, 1)
        NetworkSpec("face_detection_full_range_sparse", ("Identity", "Identity_1"), (-1.0, 1.0)),
        # how sure each pixel belongs to a person: (1, 256, 256) and (1, 144, 256)
        NetworkSpec("selfie_segmentation", ("activation_10",)),
        NetworkSpec("selfie_segmentation_landscape", ("segment_back",)),
        # 468 x (x, y, z), logit
        NetworkSpec("face_landmark", ("conv2d_21", "conv2d_31")),
        # 468 x (x, y, z), features (32, 48, 48), logit; its left is the right of the picture's
        # subject
        NetworkSpec(
            _ATTENTION, ("output_mesh", "p_re_lu_3", "conv_faceflag"), piece="face_attention_mesh"
        ),
        _attention("lips", "transform_tensor_bilinear_v2", "conv_lips"),
        _attention(
            "right_eye", "transform_tensor_bilinear_v2_1", "conv_left_eye", "conv_left_iris"
        ),
        _attention(
            "left_eye", "transform_tensor_bilinear_v2_2", "conv_right_eye", "conv_right_iris"
        ),
    )
}


def load_tflite(name: str) -> bytes:
    """Return the TFLite model of a network: the published file without what is not taken of it."""
    spec = NETWORKS[name]
    return prune(ensure_model(spec.model).read_bytes(), spec.outputs, start=spec.start)


def load_side_layer(model: str) -> tuple[FloatArray, FloatArray]:
    """Return weights `(features,)` and bias `(1,)` of the layer that tells left hands from right.

    It is not run with the network: LiteRT adds in another order than MediaPipe does.
    """
    graph = read_graph(ensure_model(model), [_HAND_SIDE], start=_HAND_FEATURES)
    _, weights, bias = graph.nodes[0].inputs
    return graph.constants[weights].reshape(-1), graph.constants[bias]


def load_onnx(name: str) -> bytes:
    """Return the ONNX model of a network, from the cache or converted now.

    A cache that cannot be written is no error: the conversion takes about a second.
    """
    return cached_model(f"{name}-{source_of(name)}-v{CONVERTER_VERSION}", lambda: convert(name))


def source_of(name: str) -> str:
    """Return what says in a cached file's name which published file a network was made of."""
    return get_pinned(NETWORKS[name].model, "model").sha256[:16]


def cached_model(name: str, make: Callable[[], bytes], *, suffix: str = "onnx") -> bytes:
    """Return a model of the cache; if it is not there or damaged, made now and kept.

    Args:
        name: Of the file; with all that decides what is in it. A checksum is added.
        make: Makes it.
        suffix: What kind of file it is: `onnx` or `tflite`.
    """
    folder = cache_folder() / suffix
    with contextlib.suppress(OSError):
        for cached in folder.glob(f"{name}-*.{suffix}"):
            data = cached.read_bytes()
            if cached.stem == f"{name}-{zlib.crc32(data):08x}":
                return data
            cached.unlink()
    data = make()
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_path(folder / f"{name}-{zlib.crc32(data):08x}.{suffix}") as temporary:
            temporary.write_bytes(data)
    return data


def convert(name: str) -> bytes:
    """Return the ONNX model of a network, converted from its TFLite file."""
    spec = NETWORKS[name]
    graph = read_graph(ensure_model(spec.model), spec.outputs, start=spec.start)
    rewrite(graph)
    value_range = spec.value_range if spec.start is None else None
    return export_onnx(graph, value_range=value_range, name=name)
