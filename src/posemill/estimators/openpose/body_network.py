"""The body network of OpenPose as it is published for PyTorch (`body_pose_model.pth`).

VGG-19's first ten layers, then six stages of two branches: 38 affinity maps (L1), 19 heat maps
(L2). Layers are named as in the file.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from posemill.errors import MissingExtraError, WeightsError
from posemill.estimators.openpose.networks import join_maps
from posemill.files import sha256_of
from posemill.records import FloatArray

# Names and channels of the layers in front; "pool" halves the size.
_FRONT = ("conv1_1 64", "conv1_2 64", "pool", "conv2_1 128", "conv2_2 128", "pool", "conv3_1 256",
          "conv3_2 256", "conv3_3 256", "conv3_4 256", "pool", "conv4_1 512", "conv4_2 512",
          "conv4_3_CPM 256", "conv4_4_CPM 128")  # fmt: skip
_MAPS = {"L1": 38, "L2": 19}
_STAGES = range(2, 7)


def layer_shapes() -> dict[str, tuple[int, int, int]]:
    """Return channels in, channels out and the side of the window, of every layer."""
    shapes: dict[str, tuple[int, int, int]] = {}
    channels = 3
    for word in _FRONT:
        if word != "pool":
            name, _, count = word.partition(" ")
            shapes[name] = (channels, int(count), 3)
            channels = int(count)
    for branch, maps in _MAPS.items():
        for number, (into, out) in enumerate(pairwise((128, 128, 128, 128, 512, maps)), start=1):
            shapes[f"conv5_{number}_CPM_{branch}"] = (into, out, 3 if number < 4 else 1)
    for stage in _STAGES:
        for branch, maps in _MAPS.items():
            widths = (128 + sum(_MAPS.values()), *([128] * 6), maps)
            for number, (into, out) in enumerate(pairwise(widths), start=1):
                shapes[f"Mconv{number}_stage{stage}_{branch}"] = (into, out, 7 if number < 6 else 1)
    return shapes


def _import_torch() -> Any:
    try:
        import torch
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "a .pth network needs torch, which is not installed; run: pip install 'posemill[train]'"
        ) from error
    return torch


def _build(torch: Any) -> Any:
    layers = {
        name: torch.nn.Conv2d(into, out, side, padding=side // 2)
        for name, (into, out, side) in layer_shapes().items()
    }

    class BodyNetwork(torch.nn.Module):  # type: ignore[misc]
        """Pictures to the maps of the last stage: affinities, heat maps."""

        def __init__(self) -> None:
            super().__init__()
            for name, layer in layers.items():
                self.add_module(name, layer)

        def _chain(self, values: Any, names: list[str]) -> Any:
            for name in names[:-1]:
                values = torch.relu(getattr(self, name)(values))
            return getattr(self, names[-1])(values)

        def forward(self, pictures: Any) -> tuple[Any, Any]:
            front = pictures
            for word in _FRONT:
                if word == "pool":
                    front = torch.nn.functional.max_pool2d(front, 2)
                else:
                    front = torch.relu(getattr(self, word.partition(" ")[0])(front))
            maps = [
                self._chain(front, [f"conv5_{number}_CPM_{branch}" for number in range(1, 6)])
                for branch in _MAPS
            ]
            for stage in _STAGES:
                seen = torch.cat([*maps, front], 1)
                maps = [
                    self._chain(seen, [f"Mconv{n}_stage{stage}_{branch}" for n in range(1, 8)])
                    for branch in _MAPS
                ]
            return maps[0], maps[1]

    return BodyNetwork()


class TorchMaps:
    """The body network on PyTorch; see `networks.MapsNetwork`."""

    size_hw: tuple[int, int] | None = None
    converter: int | None = None

    def __init__(self, path: Path, *, device: str, threads: int, pixels: str) -> None:
        self._torch = torch = _import_torch()
        torch.set_num_threads(threads)
        network = _build(torch)
        try:
            weights = torch.load(path, map_location="cpu", weights_only=True)
            network.load_state_dict(weights)
        except Exception as error:  # whatever a file that is something else makes torch raise
            # What torch says behind its first sentence is advice to trust the file.
            reason = " ".join(str(error).split()).partition(". ")[0][:200]
            raise WeightsError(
                "{path} is not the body network of OpenPose for PyTorch: {reason}",
                path=path,
                reason=reason,
            ) from error
        self._device = device.replace("tensorrt", "cuda")
        self._network = network.eval().to(self._device)
        self.pixels = pixels
        self.name, self.sha256 = path.name, sha256_of(path)
        self.runtime = f"torch {torch.__version__}"

    def run(self, pictures: FloatArray) -> FloatArray:
        """Return the maps; see `MapsNetwork`."""
        with self._torch.inference_mode():
            maps = self._network(self._torch.from_numpy(pictures).to(self._device))
        return join_maps([np.asarray(each.cpu()) for each in maps], "body network")
