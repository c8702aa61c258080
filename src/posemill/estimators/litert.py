"""LiteRT as a second runtime: the published model files as they are, with the kernels stock uses.

ONNX Runtime adds in another order, which shifts landmarks by some hundredths of a pixel (more in
video mode, where tracking feeds it back). Where digits equal to stock's count more than speed, this
runtime gives them. CPU only, one picture at a time; the segmentation branch runs for nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.errors import DeviceError, MissingExtraError
from posemill.weights.networks import NETWORKS
from posemill.weights.pull import ensure_model


class LiteRTNetwork:
    """One network of the catalogue, loaded. Pictures as bytes in, arrays out."""

    runs_batches = False

    def __init__(self, name: str, *, device: str = "cpu", threads: int = 1) -> None:
        if device != "cpu":
            raise DeviceError(f"runtime 'litert' runs on the cpu only, not on {device!r}")
        spec = NETWORKS[name]
        self._interpreter = _interpreter_class()(
            model_path=str(ensure_model(name)), num_threads=threads
        )
        self._interpreter.allocate_tensors()
        picture = self._interpreter.get_input_details()[0]
        self._input = picture["index"]
        self.size = int(picture["shape"][1])
        outputs = {out["name"]: out["index"] for out in self._interpreter.get_output_details()}
        self._outputs = [outputs[output] for output in spec.outputs]
        low, high = spec.value_range
        # Product and offset are rounded once, as the original's fused operation does.
        step = np.float64(np.float32((high - low) / 255))
        self._values = (np.arange(256) * step + low).astype(np.float32)

    def run(self, pixels: npt.NDArray[np.uint8]) -> list[npt.NDArray[np.float32]]:
        """Return the outputs for one `(1, size, size, 3)` RGB crop, maps with channels first."""
        self._interpreter.set_tensor(self._input, self._values[pixels])
        self._interpreter.invoke()
        return [_as_onnx(self._interpreter.get_tensor(output)) for output in self._outputs]


def _as_onnx(output: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    if output.ndim != 4:
        return output
    return output.reshape(1, -1) if output.shape[1] == 1 else output.transpose(0, 3, 1, 2)


def _interpreter_class() -> Any:
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"runtime 'litert' needs {error.name!r}; run: pip install 'posemill[litert]'"
        ) from error
    return Interpreter
