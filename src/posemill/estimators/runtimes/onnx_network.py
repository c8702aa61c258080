"""Networks on ONNX Runtime: our converted graphs, on `cpu`, `cuda:N` or `tensorrt:N`.

Never another device than the one asked for: a GPU that is not there is an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.errors import DeviceError, WeightsError
from posemill.estimators.runtimes.devices import (
    import_onnxruntime,
    list_onnx_runtimes,
    say_how_to_use_gpus,
)
from posemill.estimators.runtimes.sessions import MAX_VALUES, NetworkRunError, TensorInfo, too_large
from posemill.messages import Message
from posemill.weights.networks import load_onnx

_GPU_PROVIDERS = {"cuda": "CUDAExecutionProvider", "tensorrt": "TensorrtExecutionProvider"}
_DTYPES = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(double)": "float64",
    "tensor(uint8)": "uint8",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
}


class OnnxNetwork:
    """One network of the catalogue, loaded. Pictures as bytes in, arrays out."""

    def __init__(self, name: str, *, device: str = "cpu", threads: int = 1) -> None:
        # One crop at a time on a CPU: batches gain nothing there, cost memory, and their last bits
        # depend on their size.
        self.runs_batches = device != "cpu"
        self._session = open_onnx(
            load_onnx(name),
            name,
            device=device,
            threads=threads,
            fixed={} if self.runs_batches else {"batch": 1},
        )
        picture = self._session.get_inputs()[0]
        self._input_name = picture.name
        self._output_names = [output.name for output in self._session.get_outputs()]
        self.size = int(picture.shape[1])

    def run(self, pixels: npt.NDArray[Any]) -> list[npt.NDArray[np.float32]]:
        """Return the outputs for `(batch, size, size, 3)` RGB crops; the batch is 1 on a CPU."""
        outputs: list[npt.NDArray[np.float32]] = self._session.run(
            self._output_names, {self._input_name: pixels}
        )
        return outputs


class OnnxSession:
    """A network in an ONNX file, see `sessions.Session`."""

    def __init__(self, model: bytes | str, name: str, **settings: Any) -> None:
        self._session = open_onnx(model, name, **settings)
        self.inputs = [_info_of(each) for each in self._session.get_inputs()]
        self.outputs = [_info_of(each) for each in self._session.get_outputs()]

    def run(self, pictures: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Return the outputs; see `Session`."""
        try:
            outputs: list[npt.NDArray[Any]] = self._session.run(
                None, {self.inputs[0].name: pictures}
            )
        except onnxruntime_errors() as error:
            raise NetworkRunError(" ".join(str(error).split())[:200]) from error
        return outputs


def _info_of(value: Any) -> TensorInfo:
    shape = tuple(size if isinstance(size, int) and size > 0 else None for size in value.shape)
    return TensorInfo(value.name, shape, np.dtype(_DTYPES.get(value.type, object)))


def open_onnx(
    model: bytes | str,
    name: str,
    *,
    device: str,
    threads: int,
    fixed: Mapping[str, int] = MappingProxyType({}),
) -> Any:
    """Return ONNX Runtime's own session of a model on that device, and no other.

    Args:
        model: The content of a file of ours, or the path of one of the user's.
        name: For messages.
        device: `cpu`, `cuda:N` or `tensorrt:N`.
        threads: Inside one call.
        fixed: Sizes of dimensions that the model leaves open, by their names.
    """
    kind, _ = _parse_device(device)
    provider = check_device_is_there(device)
    onnxruntime = import_onnxruntime(device)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # A worker that waits for its threads by spinning takes a core from the next worker.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    for dimension, size in fixed.items():
        options.add_free_dimension_override_by_name(dimension, size)
    try:
        if not isinstance(model, bytes):
            _check_outputs(onnxruntime, model, name)
        session = onnxruntime.InferenceSession(model, options, providers=[provider])
    except onnxruntime_errors() as error:
        raise _load_error(name, device, error, is_ours=isinstance(model, bytes)) from error
    if session.get_providers()[0] != (provider if kind == "cpu" else provider[0]):
        raise DeviceError(
            "asked for {device}, but ONNX Runtime put {name} on {provider}; check the driver "
            "and the CUDA libraries",
            device=device,
            name=name,
            provider=session.get_providers()[0],
        )
    return session


def _check_outputs(onnxruntime: Any, model: str, name: str) -> None:
    """Refuse a stranger's file whose outputs would fill the memory."""
    # Outputs that do not depend on the picture are computed while a file is loaded, but for this.
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    plain = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    for output in plain.get_outputs():
        sizes = [size for size in output.shape if isinstance(size, int)]
        if math.prod(sizes) > MAX_VALUES:
            raise too_large(name, output.name, math.prod(sizes))


def check_device_is_there(device: str) -> Any:
    """Return ONNX Runtime's provider for a device; raises where there is none."""
    kind, number = _parse_device(device)
    return _provider_of(kind, number, import_onnxruntime(device).get_available_providers())


def onnxruntime_errors() -> tuple[type[Exception], ...]:
    """Return ONNX Runtime's exceptions: they have no common base of their own."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    kinds = (value for value in vars(state).values() if isinstance(value, type))
    return (RuntimeError, *(kind for kind in kinds if issubclass(kind, Exception)))


def _parse_device(device: str) -> tuple[str, int]:
    """Return the kind of device, and which of its kind it is."""
    if device == "cpu":
        return "cpu", 0
    match = re.fullmatch(r"(cuda|tensorrt)(?::(\d+))?", device)
    if not match:
        raise DeviceError(
            "unknown device {device!r}; expected cpu, cuda:N or tensorrt:N", device=device
        )
    return match[1], int(match[2] or 0)


def _provider_of(kind: str, number: int, available: Sequence[str]) -> Any:
    """Return ONNX Runtime's provider for a device (with options for a GPU)."""
    if kind == "cpu":
        return "CPUExecutionProvider"
    provider = _GPU_PROVIDERS[kind]
    if provider not in available:
        raise DeviceError(
            "device {kind}:{number} asked for, but ONNX Runtime has {available} only: {remedy}",
            kind=kind,
            number=number,
            available=", ".join(available),
            remedy=say_how_to_use_gpus(list_onnx_runtimes()),
        )
    options: dict[str, Any] = {"device_id": number}
    if kind == "cuda":
        # Without it a change of batch size searches for algorithms again.
        options["cudnn_conv_algo_search"] = "HEURISTIC"
    return provider, options


def _load_error(name: str, device: str, error: Exception, *, is_ours: bool) -> Exception:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if device != "cpu":
        return DeviceError(
            "ONNX Runtime cannot use {device} for {name}: {reason}",
            device=device,
            name=name,
            reason=reason,
        )
    remedy = (
        Message(
            "delete the folder `onnx` in the cache folder that `posemill doctor` names, and try "
            "again"
        )
        if is_ours
        else Message("expected a whole .onnx file: copy or export it again")
    )
    return WeightsError(
        "ONNX Runtime cannot load {name} ({reason}); {remedy}",
        name=name,
        reason=reason,
        remedy=remedy,
    )
