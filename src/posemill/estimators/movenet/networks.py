"""The published networks on ONNX Runtime or OpenVINO: pictures in, maps out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from posemill.estimators.runtimes.sessions import open_session
from posemill.records import FloatArray, Frame
from posemill.weights.catalogue import get_pinned
from posemill.weights.networks import cached_model
from posemill.weights.pull import ensure_model
from posemill.weights.tensorflow_graph import CHANNELS_FIRST, Picture, Value, export_graph
from posemill.weights.tfjs_graph import read_tfjs_graph

CONVERTER_VERSION = 1
_GPU_BATCH = 32


@dataclass(frozen=True)
class _Part:
    """Which part of a published graph is run: what comes before and behind is done here."""

    start: Value
    outputs: tuple[str, ...]
    picture: Picture


_CALL = "StatefulPartitionedCall"


def _movenet(size: int) -> _Part:
    """Return MoveNet without its decoder, which knows one picture only.

    Heat maps of the points, of the person's centre, from a centre to the points (y, x), and from
    the cells of points to the points (y, x).
    """
    outputs = (
        "Sigmoid",
        "truediv_2",
        "kpt_regress_0/conv2d_6/BiasAdd",
        "kpt_offset_0/conv2d_7/BiasAdd",
    )
    return _Part(
        Value(f"{_CALL}/stack"), tuple(f"{_CALL}/{name}" for name in outputs), Picture(size)
    )


_MEANS, _DEVIATIONS = (103.53, 116.28, 123.675), (57.375, 57.12, 58.395)
_PARTS = {
    "movenet-thunder": _movenet(256),
    "movenet-lightning": _movenet(192),
    # BGR; for each stride 80 classes, as logits, and four sides of 11 bins.
    "nanodet": _Part(
        Value("input_1", CHANNELS_FIRST),
        ("PartitionedCall/Add_29", "PartitionedCall/Add_33", "PartitionedCall/Add_37"),
        Picture(
            416,
            factor=tuple(1 / each for each in _DEVIATIONS),  # type: ignore[arg-type]
            offset=tuple(-m / d for m, d in zip(_MEANS, _DEVIATIONS, strict=True)),  # type: ignore[arg-type]
        ),
    ),
}  # fmt: skip


class MapsNetwork:
    """One network, loaded. `size` is the side of its pictures, `sha256` that of its weights."""

    def __init__(self, name: str, *, runtime: str, device: str, threads: int) -> None:
        self.size = _PARTS[name].picture.size
        self.sha256 = get_pinned(f"{name}-weights", "model").sha256
        # One picture at a time on a CPU: batches gain nothing there, and their last bits depend on
        # their size.
        self._batch = 1 if device == "cpu" else _GPU_BATCH
        self._session = open_session(
            load_network(name),
            name,
            runtime=runtime,
            device=device,
            threads=threads,
            fixed={"batch": 1} if device == "cpu" else {},
        )

    def run(self, pictures: Sequence[Frame]) -> Iterator[list[FloatArray]]:
        """Yield the maps of some pictures after the other, `(batch, channels, rows, columns)`."""
        for start in range(0, len(pictures), self._batch):
            batch = np.stack(pictures[start : start + self._batch])
            yield self._session.run(batch)


def load_network(name: str) -> bytes:
    """Return the ONNX model of a network, from the cache or converted now."""
    digests = "".join(get_pinned(each, "model").sha256[:8] for each in (name, f"{name}-weights"))
    return cached_model(f"{name}-{digests}-v{CONVERTER_VERSION}", lambda: convert(name))


def convert(name: str) -> bytes:
    """Return the ONNX model of a network, converted from its two published files."""
    part = _PARTS[name]
    graph = read_tfjs_graph(ensure_model(name), ensure_model(f"{name}-weights"))
    return export_graph(graph, start=part.start, outputs=part.outputs, picture=part.picture)
