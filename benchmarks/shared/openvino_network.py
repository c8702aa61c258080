"""The published model files on OpenVINO, behind the interface of the engine's runtimes.

Only benchmarks use it: `RUNTIMES["openvino"] = f"{__name__}:OpenVinoNetwork"`. OpenVINO comes with
the extra `bench`.
"""

from __future__ import annotations

import numpy as np

from posemill.weights.networks import NETWORKS
from posemill.weights.pull import ensure_model


class OpenVinoNetwork:
    """One network, in float32 on one thread, only with the outputs the engine needs."""

    runs_batches = False

    def __init__(self, name: str, *, device: str = "cpu", threads: int = 1) -> None:
        import openvino

        spec = NETWORKS[name]
        core = openvino.Core()
        model = core.read_model(ensure_model(name))
        outputs = {out.get_any_name(): out for out in model.outputs}
        results = [
            openvino.opset13.result(outputs[output].get_node().input_value(0))
            for output in spec.outputs
        ]
        model = openvino.Model(results, model.get_parameters(), name)
        self._request = core.compile_model(model, device.upper(), {
            "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "ENABLE_CPU_PINNING": False,
            "INFERENCE_PRECISION_HINT": "f32",
        }).create_infer_request()  # fmt: skip
        self.size = int(model.inputs[0].shape[1])
        low, high = spec.value_range
        step = np.float64(np.float32((high - low) / 255))
        self._values = (np.arange(256) * step + low).astype(np.float32)

    def run(self, pixels: np.ndarray) -> list[np.ndarray]:
        """Return the outputs for one `(1, size, size, 3)` RGB crop, maps with channels first."""
        return [as_onnx(np.array(output)) for output in self.infer(self._values[pixels]).values()]

    def infer(self, values: np.ndarray) -> dict[object, np.ndarray]:
        """Return the outputs as they are for `(1, size, size, 3)` values in the network's range."""
        outputs: dict[object, np.ndarray] = self._request.infer({0: values})
        return outputs


def as_onnx(output: np.ndarray) -> np.ndarray:
    """Return an output in the shape our ONNX graphs give it."""
    if output.ndim != 4:
        return output
    return output.reshape(1, -1) if output.shape[1] == 1 else output.transpose(0, 3, 1, 2)
