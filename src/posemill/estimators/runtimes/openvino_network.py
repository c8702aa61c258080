"""Networks on OpenVINO, in float32 on a CPU: the published TFLite files, and ONNX files.

Where a processor claims AMX, OpenVINO computes in bf16 by itself and ends the process if AMX traps.
So float32 is asked for. Its pinning would put the workers of a job on the same core.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from posemill.errors import DeviceError, MissingExtraError, WeightsError
from posemill.estimators.runtimes.litert_network import as_onnx, values_of_bytes
from posemill.estimators.runtimes.sessions import MAX_VALUES, NetworkRunError, TensorInfo, too_large
from posemill.weights.networks import NETWORKS, load_tflite


class OpenVinoNetwork:
    """One network of the catalogue, loaded. Pictures as bytes in, arrays out."""

    runs_batches = False

    def __init__(self, name: str, *, device: str = "cpu", threads: int = 1) -> None:
        spec = NETWORKS[name]
        with tempfile.TemporaryDirectory(prefix="posemill-") as folder:
            path = Path(folder) / f"{name}.tflite"
            path.write_bytes(load_tflite(name))
            model = read_model(path, name)
            self._request = compile_model(model, device=device, threads=threads)
        self.size = int(model.inputs[0].shape[1])
        names = [output.get_names() for output in model.outputs]
        self._order = [
            next(place for place, known in enumerate(names) if output in known)
            for output in spec.outputs
        ]
        self._values = values_of_bytes(spec)
        self._pixels = np.empty(tuple(model.inputs[0].shape), np.float32)

    def run(self, pixels: npt.NDArray[Any]) -> list[npt.NDArray[np.float32]]:
        """Return the outputs for one `(1, size, size, 3)` RGB crop, maps with channels first."""
        if self._values is None:
            self._pixels[:] = pixels
        else:
            cv2.LUT(pixels[0], self._values, dst=self._pixels[0])
        outputs = self._request.infer([self._pixels], share_inputs=True)
        return [as_onnx(np.array(outputs[place])) for place in self._order]


class OpenVinoSession:
    """A network in an ONNX or TFLite file, see `sessions.Session`."""

    def __init__(
        self,
        model: bytes | str,
        name: str,
        *,
        device: str,
        threads: int,
        fixed: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        network = read_model(model, name)
        if "batch" in fixed:
            shape = network.inputs[0].partial_shape
            shape[0] = fixed["batch"]
            network.reshape(shape)
        if not isinstance(model, bytes):
            for output in map(_info_of, network.outputs):
                num_values = math.prod(size for size in output.shape if size is not None)
                if num_values > MAX_VALUES:
                    raise too_large(name, output.name, num_values)
        self.inputs = [_info_of(each) for each in network.inputs]
        self.outputs = [_info_of(each) for each in network.outputs]
        self._request = compile_model(network, device=device, threads=threads)

    def run(self, pictures: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Return the outputs; see `Session`."""
        try:
            outputs = self._request.infer([pictures], share_inputs=True)
        except RuntimeError as error:
            raise NetworkRunError(last_line(error)) from error
        return [np.array(outputs[place]) for place in range(len(self.outputs))]


def read_model(model: bytes | str | Path, name: str) -> Any:
    """Return a model in OpenVINO's own form.

    Args:
        model: The content of an ONNX file, or the path of an ONNX or TFLite file.
        name: For messages.
    """
    try:
        return import_openvino().Core().read_model(model)
    except RuntimeError as error:
        raise WeightsError(
            "OpenVINO cannot load {name} ({reason}); expected a whole .onnx or .tflite file: copy "
            "or export it again, or choose another runtime",
            name=name,
            reason=last_line(error),
        ) from error


def compile_model(model: Any, *, device: str, threads: int) -> Any:
    """Return what runs a model, in float32."""
    if device != "cpu":
        raise DeviceError(
            "runtime 'openvino' runs on the cpu only, not on {device!r}", device=device
        )
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "ENABLE_CPU_PINNING": False,
        "INFERENCE_PRECISION_HINT": "f32",
    }
    return import_openvino().Core().compile_model(model, "CPU", settings).create_infer_request()


def import_openvino() -> Any:
    """Return the module of OpenVINO; an error says how to install it."""
    try:
        import openvino
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "runtime=openvino needs {name!r}; run: pip install 'posemill[openvino]'",
            name=error.name,
        ) from error
    return openvino


def last_line(error: Exception) -> str:
    """Return the part of one of OpenVINO's errors that says what was wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:200] if lines else type(error).__name__


def _info_of(tensor: Any) -> TensorInfo:
    shape = tuple(each.get_length() if each.is_static else None for each in tensor.partial_shape)
    return TensorInfo(tensor.get_any_name(), shape, np.dtype(tensor.element_type.to_dtype()))
