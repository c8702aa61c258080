"""The usual script for OpenPose's txt files, which `openpose_against_loop` measures itself against.

    python openpose_loop.py GRAPH WORKERS PICTURES OUT

A pool of processes; the detector is built for each picture. With 0 workers a few pictures one after
the other, and the network's share of the time on stdout.
"""

from __future__ import annotations

import json
import math
import sys
import time
from functools import partial
from importlib import import_module
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import cv2
import numpy as np

_LIMBS = ((1, 2, 12), (1, 5, 20), (2, 3, 14), (3, 4, 16), (5, 6, 22), (6, 7, 24), (1, 8, 0),
          (8, 9, 2), (9, 10, 4), (1, 11, 6), (11, 12, 8), (12, 13, 10), (1, 0, 28), (0, 14, 30),
          (14, 16, 34), (0, 15, 32), (15, 17, 36), (2, 16, 18), (5, 17, 26))  # fmt: skip
_HEIGHT = 368


class Detector:
    """The network and a plain decoder."""

    def __init__(self, graph: str) -> None:
        self._net = cv2.dnn.readNetFromTensorflow(graph)
        self.network_seconds = 0.0

    def find(self, picture: Any) -> list[Any]:
        """Return the candidates of every point, all people's together, as the script does."""
        height, width = picture.shape[:2]
        size_wh = round(width * _HEIGHT / height / 8) * 8, _HEIGHT
        blob = cv2.dnn.blobFromImage(picture, 1.0, size_wh)
        begun = time.process_time()
        self._net.setInput(blob)
        maps = self._net.forward()[0].transpose(1, 2, 0)
        self.network_seconds += time.process_time() - begun
        heat, affinity = (_enlarged(part, size_wh, (width, height))
                          for part in (maps[..., :19], maps[..., 19:]))  # fmt: skip
        peaks = [_peaks(heat[..., point]) for point in range(18)]
        limbs = [_connect(peaks[a], peaks[b], affinity[..., channel : channel + 2], height)
                 for a, b, channel in _LIMBS]  # fmt: skip
        assert len(limbs) == len(_LIMBS)
        return peaks


def _enlarged(maps: Any, input_wh: tuple[int, int], size_wh: tuple[int, int]) -> Any:
    large = cv2.resize(maps, input_wh, interpolation=cv2.INTER_CUBIC)
    mean = np.zeros((size_wh[1], size_wh[0], maps.shape[2]))
    return mean + cv2.resize(large, size_wh, interpolation=cv2.INTER_CUBIC)


def _peaks(heat: Any) -> list[tuple[int, int, float]]:
    smooth = import_module("scipy.ndimage").gaussian_filter(heat, sigma=3)
    around = [np.zeros(heat.shape) for _ in range(4)]
    around[0][1:], around[1][:-1] = smooth[:-1], smooth[1:]
    around[2][:, 1:], around[3][:, :-1] = smooth[:, :-1], smooth[:, 1:]
    is_peak = np.logical_and.reduce([*(smooth >= other for other in around), smooth > 0.1])
    return [(x, y, float(heat[y, x])) for y, x in zip(*np.nonzero(is_peak), strict=True)]


def _connect(starts: list[Any], ends: list[Any], affinity: Any, height: int) -> list[Any]:
    pairs = []
    for i, start in enumerate(starts):
        for j, end in enumerate(ends):
            across, down = end[0] - start[0], end[1] - start[1]
            length = max(math.hypot(across, down), 0.001)
            places = zip(np.linspace(start[0], end[0], 10), np.linspace(start[1], end[1], 10),
                         strict=True)  # fmt: skip
            along = [affinity[round(y), round(x)] @ (across / length, down / length)
                     for x, y in places]  # fmt: skip
            score = sum(along) / 10 + min(0.5 * height / length - 1, 0)
            if sum(each > 0.05 for each in along) > 8 and score > 0:
                pairs.append((score, i, j))
    chosen: list[Any] = []
    for score, i, j in sorted(pairs, reverse=True):
        if i not in [each[1] for each in chosen] and j not in [each[2] for each in chosen]:
            chosen.append((score, i, j))
    return chosen


def work(path: Path, graph: str, out: Path) -> tuple[float, float]:
    """Write the first 18 candidates of a picture; return CPU seconds, and those of the network."""
    begun = time.process_time()
    detector = Detector(graph)
    peaks = [point for part in detector.find(cv2.imread(str(path))) for point in part][:18]
    lines = "".join(f"{x} {y}\n" for x, y, _ in peaks)
    (out / f"{path.stem}.txt").write_text(lines)
    return time.process_time() - begun, detector.network_seconds


def main() -> None:
    """Do all pictures of a folder."""
    graph, workers, out = sys.argv[1], int(sys.argv[2]), Path(sys.argv[4])
    paths = sorted(Path(sys.argv[3]).iterdir())
    out.mkdir(exist_ok=True)
    task = partial(work, graph=graph, out=out)
    if workers:
        with Pool(workers) as pool:
            pool.map(task, paths)
        return
    cv2.setNumThreads(1)
    seconds = [task(path) for path in paths[:9]][1:]
    whole, network = (sum(each) for each in zip(*seconds, strict=True))
    print(json.dumps({"network_share": network / whole}))


if __name__ == "__main__":
    main()
