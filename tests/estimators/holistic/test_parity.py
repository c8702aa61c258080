"""Against what stock MediaPipe 0.10.21 says about the same frames."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from posemill.estimators.holistic import HolisticEstimator
from posemill.jobs.landmarks import Mode, estimate_landmarks, save_landmarks

Report = dict[str, dict[str, Any]]
PARTS = ("pose", "face", "left_hand", "right_hand")


@pytest.fixture(scope="module")
def compare(
    shared: Path, model_files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Report]:
    """Run the engine on a source of the shared media, and compare with the golden file."""
    sys.path.insert(0, str(shared / "tools"))
    tool = import_module("compare_landmarks")
    sys.path.remove(str(shared / "tools"))

    def run(source: str, mode: Mode, runtime: str = "auto") -> Report:
        clip, errors = estimate_landmarks(shared / "media" / source, mode=mode, runtime=runtime)
        assert not errors
        out = tmp_path_factory.mktemp("parity") / "landmarks.npz"
        save_landmarks(clip, out)
        golden = np.load(shared / "golden" / f"{Path(source).name}.{mode}.npz", allow_pickle=False)
        report: Report = tool.compare(golden, np.load(out, allow_pickle=False))
        return report

    return run


# agree, median and 95th percentile in pixels that were asked for
LIMITS = {"image": (0.99, 0.1, 0.8), "video": (0.97, 0.6, None)}


@pytest.mark.parametrize(
    ("source", "mode"),
    [
        ("images", "image"),
        ("clips/asl_house", "image"),
        ("clips/asl_house", "video"),
        ("clips/wlasl_00335", "image"),
        ("clips/wlasl_00335", "video"),
    ],
)
def test_landmarks_are_those_of_stock(
    compare: Callable[..., Report], source: str, mode: Mode
) -> None:
    """Body and face to the last digits.

    From version 2 on, LiteRT's hand_recrop adds in another order than stock's.
    """
    report = compare(source, mode)
    for part in ("pose", "face"):
        assert report[part]["max"] < 1e-4, part
    for part in PARTS:
        assert report[part]["agree"] == 1.0, part
        assert report[part]["median"] is None or report[part]["median"] < 0.02, part


@pytest.mark.parametrize(("source", "mode"), [("images", "image"), ("clips/wlasl_00335", "video")])
def test_on_onnxruntime_they_are_close(
    compare: Callable[..., Report], source: str, mode: Mode
) -> None:
    agree, median, high = LIMITS[mode]
    for part, row in compare(source, mode, "onnxruntime").items():
        assert row["agree"] >= agree, part
        assert row["median"] is None or row["median"] <= median, part
        assert high is None or row["p95"] <= high, part


def test_the_photograph_has_the_digits_of_stock(
    model_files: dict[str, Path], photo: np.ndarray
) -> None:
    """ONNX Runtime is 0.2 px away here, as are versions of LiteRT with other kernels."""
    stock = json.loads((Path(__file__).parent / "stock_photograph.json").read_text())
    found = HolisticEstimator(runtime="litert").estimate([photo])
    pose = np.concatenate([found.points[0, :33], found.scores[0, :33, None]], 1)
    np.testing.assert_allclose(pose, stock["pose"], rtol=0, atol=1e-6)
    np.testing.assert_allclose(found.points[0, 33:501:20], stock["face_by_20"], rtol=0, atol=1e-6)
