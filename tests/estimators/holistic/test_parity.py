"""Against what stock MediaPipe 0.10.21 says about the same frames."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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

    def run(source: str, mode: Mode, runtime: str = "onnxruntime") -> Report:
        clip, errors = estimate_landmarks(shared / "media" / source, mode=mode, runtime=runtime)
        assert not errors
        out = tmp_path_factory.mktemp("parity") / "landmarks.npz"
        save_landmarks(clip, out)
        golden = np.load(shared / "golden" / f"{Path(source).name}.{mode}.npz", allow_pickle=False)
        report: Report = tool.compare(golden, np.load(out, allow_pickle=False))
        return report

    return run


def test_pictures_agree_with_stock(compare: Callable[..., Report]) -> None:
    for part, row in compare("images", "image").items():
        assert row["agree"] >= 0.99, part
        assert row["median"] <= 0.1, part
        assert row["p95"] <= 0.8, part


def test_a_signing_clip_agrees_with_stock(compare: Callable[..., Report]) -> None:
    for part, row in compare("clips/wlasl_00335", "video").items():
        assert row["agree"] >= 0.97, part
        assert row["median"] is None or row["median"] <= 0.6, part


@pytest.mark.parametrize(
    ("source", "mode"),
    [("images", "image"), ("clips/asl_house", "image"), ("clips/asl_house", "video")],
)
def test_with_the_kernels_of_stock_its_digits_come_out(
    compare: Callable[..., Report], source: str, mode: Mode
) -> None:
    """The rules are exact: what is left between us and stock is the order of additions.

    From version 2 on, LiteRT's hand_recrop adds in another order than stock's.
    """
    report = compare(source, mode, "litert")
    for part in ("pose", "face"):
        assert report[part]["max"] < 1e-4, part
    for part in PARTS:
        assert report[part]["agree"] == 1.0, part
        assert report[part]["median"] < 0.01, part
