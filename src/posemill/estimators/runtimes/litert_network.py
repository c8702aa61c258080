"""Networks on LiteRT: the published model files with the kernels stock uses, on a CPU.

They add in the order in which stock's add, whatever the processor: landmarks come out as stock's.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import MappingProxyType
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from posemill.errors import DeviceError, MissingExtraError, WeightsError
from posemill.estimators.runtimes import has_litert_here
from posemill.estimators.runtimes.litert_rewrites import VERSION, rewrite
from posemill.estimators.runtimes.sessions import MAX_VALUES, NetworkRunError, TensorInfo, too_large
from posemill.messages import Message
from posemill.weights.networks import NETWORKS, NetworkSpec, cached_model, load_tflite, source_of

_GREETING = b"INFO: Created TensorFlow Lite XNNPACK delegate for CPU."
_greeting_lock = threading.Lock()
_has_greeted = False


class LiteRTNetwork:
    """One network of the catalogue, loaded. Pictures as bytes in, arrays out."""

    runs_batches = False

    def __init__(self, name: str, *, device: str = "cpu", threads: int = 1) -> None:
        _expect_cpu(device)
        spec = NETWORKS[name]
        interpreter_class = _interpreter_class()
        model = cached_model(
            f"{name}-{source_of(name)}-v{VERSION}",
            lambda: rewrite(load_tflite(name), splits_scalings=spec.splits_scalings),
            suffix="tflite",
        )
        with _without_greeting():
            self._interpreter = interpreter_class(model_content=model, num_threads=threads)
            self._interpreter.allocate_tensors()
        picture = self._interpreter.get_input_details()[0]
        self.size = int(picture["shape"][1])
        self._input = self._interpreter.tensor(picture["index"])
        outputs = {out["name"]: out["index"] for out in self._interpreter.get_output_details()}
        self._outputs = [outputs[output] for output in spec.outputs]
        self._values = values_of_bytes(spec)
        self._is_product = self._values is not None and np.array_equal(
            self._values, np.arange(256, dtype=np.float32) * self._values[1]
        )

    def run(self, pixels: npt.NDArray[Any]) -> list[npt.NDArray[np.float32]]:
        """Return the outputs for one `(1, size, size, 3)` RGB crop, maps with channels first."""
        # The view is not kept: LiteRT refuses to run while someone holds its memory.
        if self._values is None:
            self._input()[:] = pixels
        elif self._is_product:  # quicker than a table
            np.multiply(pixels, self._values[1], out=self._input(), dtype=np.float32)
        else:
            cv2.LUT(pixels[0], self._values, dst=self._input()[0])
        self._interpreter.invoke()
        return [as_onnx(self._interpreter.get_tensor(output)) for output in self._outputs]


class LiteRTSession:
    """A network in a TFLite file of the user's, see `sessions.Session`."""

    def __init__(
        self,
        model: str,
        name: str,
        *,
        device: str,
        threads: int,
        fixed: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        _expect_cpu(device)
        interpreter_class = _interpreter_class()
        try:
            with _without_greeting():
                self._interpreter = interpreter_class(model_path=model, num_threads=threads)
                inputs = self._interpreter.get_input_details()
                outputs = self._interpreter.get_output_details()
                self.inputs = [_info_of(each) for each in inputs]
                self.outputs = [_info_of(each) for each in outputs]
                for output in self.outputs:
                    num_values = math.prod(size or 1 for size in output.shape)
                    if num_values > MAX_VALUES:
                        raise too_large(name, output.name, num_values)
                self._interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise WeightsError(
                "LiteRT cannot load {name} ({reason}); expected a whole .tflite file: copy or "
                "export it again",
                name=name,
                reason=" ".join(str(error).split())[:200],
            ) from error
        self._input, self._outputs = inputs[0]["index"], [each["index"] for each in outputs]

    def run(self, pictures: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Return the outputs; see `Session`."""
        try:
            self._interpreter.set_tensor(self._input, pictures)
            self._interpreter.invoke()
        except (ValueError, RuntimeError) as error:
            raise NetworkRunError(" ".join(str(error).split())[:200]) from error
        return [self._interpreter.get_tensor(output) for output in self._outputs]


def _info_of(details: Mapping[str, Any]) -> TensorInfo:
    shape = tuple(map(int, details["shape"]))
    return TensorInfo(details["name"], shape, np.dtype(details["dtype"]))


def values_of_bytes(spec: NetworkSpec) -> npt.NDArray[np.float32] | None:
    """Return `(256,)`: what a network sees for each byte; None for one that takes no picture."""
    if spec.start is not None:
        return None
    low, high = spec.value_range
    # Product and offset are rounded once, as the original's fused operation does.
    step = np.float64(np.float32((high - low) / 255))
    values: npt.NDArray[np.float32] = (np.arange(256) * step + low).astype(np.float32)
    return values


def as_onnx(output: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return an output of a TFLite file in the shape that our ONNX graphs give it."""
    if output.ndim != 4:
        return output
    return output.reshape(1, -1) if output.shape[1] == 1 else output.transpose(0, 3, 1, 2)


def _expect_cpu(device: str) -> None:
    if device != "cpu":
        raise DeviceError("runtime 'litert' runs on the cpu only, not on {device!r}", device=device)


def _interpreter_class() -> Any:
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError as error:  # not installed, or not for this system
        remedy = (
            Message("run: pip install ai-edge-litert, or")
            if has_litert_here()
            else Message("there is none for Macs with Intel processors;")
        )
        raise MissingExtraError(
            "runtime=litert needs the package ai-edge-litert ({error}); {remedy} ask for "
            "runtime=onnxruntime after: pip install 'posemill[onnx]'",
            error=error,
            remedy=remedy,
        ) from error
    return Interpreter


@contextmanager
def _without_greeting() -> Iterator[None]:
    """Keep LiteRT's greeting, which its C++ writes to file 2, out of the user's terminal.

    It comes once in a process, so only the first time is watched, by one thread. All else that is
    written meanwhile comes out afterwards.
    """
    global _has_greeted
    with _greeting_lock:
        if not _has_greeted:
            with _filtered_stderr():
                yield
            _has_greeted = True
            return
    yield


@contextmanager
def _filtered_stderr() -> Iterator[None]:
    with ExitStack() as files:
        try:
            saved = os.dup(2)
            files.callback(os.close, saved)
            caught = files.enter_context(tempfile.TemporaryFile())
        except OSError:  # a process without a standard error, or without a place for files
            yield
            return
        _flush()
        os.dup2(caught.fileno(), 2)
        try:
            yield
        finally:
            _flush()
            os.dup2(saved, 2)
            caught.seek(0)
            rest = b"".join(line for line in caught if line.strip() != _GREETING)
            if rest:
                os.write(2, rest)


def _flush() -> None:
    if sys.stderr is not None:  # as in a process that was started without one
        sys.stderr.flush()
