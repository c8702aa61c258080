import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pytest

from posemill.decoders.pictures import read_picture
from posemill.errors import DeviceError, MissingExtraError, WeightsError
from posemill.estimators import open_estimator, stock_mediapipe
from posemill.skeletons import get_skeleton
from posemill.testing import EngineContract

ROOT = Path(__file__).parents[2]
STOCK_PYTHON = ROOT / ".bench" / "mediapipe-0.10.21" / "bin" / "python"
# As much of the package as the engine uses. Points are of a frame's mean, and of how many frames
# were seen since the graph began; a frame of one pixel shows nobody, a black one breaks the graph.
HOLISTIC = """
from types import SimpleNamespace as Record
made = []

class Holistic:
    def __init__(self, **options):
        if options["model_complexity"] != 1:
            print("Downloading model")
            raise ConnectionError("no network")
        made.append(self)
        self.options, self.seen = options, 0

    def reset(self):
        assert self.seen >= 0, "a graph that failed"
        self.seen = 0

    def process(self, frame):
        self.seen += 1
        if not frame.any():
            self.seen = -1
            raise RuntimeError("CalculatorGraph::Run() failed")
        def points(number):
            if frame.size == 3:
                return None
            each = [Record(x=frame.mean() / 255, y=self.seen / 8, z=i, visibility=0.25)
                    for i in range(number)]
            return Record(landmark=each)
        face = 478 if self.options["refine_face_landmarks"] else 468
        return Record(pose_landmarks=points(33), face_landmarks=points(face),
                      left_hand_landmarks=points(21), right_hand_landmarks=None)
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Puts a package `mediapipe` of some version on the path, with this as its Holistic."""

    def put(version, holistic=HOLISTIC):
        site = tmp_path / version
        folder = site / "mediapipe" / "python" / "solutions"
        folder.mkdir(parents=True)
        for each in (folder, *folder.parents[:2]):
            (each / "__init__.py").touch()
        if holistic is not None:
            (folder / "holistic.py").write_text(holistic)
        info = site / f"mediapipe-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: mediapipe\nVersion: {version}\n"
        )
        for name in [each for each in sys.modules if each.split(".")[0] == "mediapipe"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.syspath_prepend(str(site))

    yield put
    for name in [each for each in sys.modules if each.split(".")[0] == "mediapipe"]:
        del sys.modules[name]


class TestMediapipe(EngineContract):
    name = "mediapipe"

    @pytest.fixture(autouse=True)
    def _installed(self, install):
        install("0.10.21")

    @pytest.fixture
    def frames(self):
        return [np.full((4, 6, 3), shade, np.uint8) for shade in (40, 90, 140)] + [
            np.full((1, 1, 3), 200, np.uint8)
        ]


def test_without_mediapipe_it_is_said_what_to_install(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(stock_mediapipe, "version", missing)
    message = (
        r"needs mediapipe 0\.10\.21 or older, which is not installed; run: pip install "
        r"'posemill\[mediapipe\]' \(Python 3\.12 or older, numpy below 2.*or use engine=.holistic"
    )
    with pytest.raises(MissingExtraError, match=message):
        open_estimator("mediapipe")


def test_a_mediapipe_that_cannot_be_used_says_why(install):
    install("0.10.35", holistic=None)
    with pytest.raises(MissingExtraError, match=r"which mediapipe 0\.10\.35 no longer has: 0"):
        open_estimator("mediapipe")
    install("0.10.9", "import no_such_package_of_its_own\n")
    message = r"mediapipe 0\.10\.9 is installed, but cannot be imported \(No module named 'no_such"
    with pytest.raises(MissingExtraError, match=message + r".*; numpy is \d"):
        open_estimator("mediapipe")


def test_a_network_that_mediapipe_cannot_fetch_is_said_before_the_work(install, capsys):
    install("0.10.21")
    with pytest.raises(WeightsError, match=r"network for model_complexity=2 \(no network\); it ne"):
        open_estimator("mediapipe", model_complexity=2)
    assert capsys.readouterr() == ("", "Downloading model\n")  # stdout is for data
    with pytest.raises(DeviceError, match="engine 'mediapipe' runs on the cpu only"):
        open_estimator("mediapipe", device="cuda:0")


def test_parts_lie_where_the_skeleton_has_them(install):
    install("0.10.21")
    grey = np.full((4, 6, 3), 51, np.uint8)
    engine = open_estimator("mediapipe", refine_face_landmarks=True, smooth_landmarks=False)
    found = engine.estimate([grey])
    skeleton = get_skeleton("holistic-553")
    assert found.points.shape == (1, 553, 3)
    for part in skeleton.parts:
        points = found.points[0, part.start : part.stop]
        if part.name == "right_hand":
            assert np.isnan(points).all()
            continue
        np.testing.assert_allclose(points[:, 0], 0.2)
        assert points[:, 2].tolist() == list(range(len(part)))
        scores = set(found.scores[0, part.start : part.stop].tolist())
        assert scores == ({0.25} if part.name == "pose" else {1.0})
    assert engine.identity() == {
        "engine": "mediapipe", "device": "cpu", "runtime": "mediapipe 0.10.21",
        "min_detection_confidence": "0.5",
        "min_tracking_confidence": "0.5", "smooth_landmarks": "False", "model_complexity": "1",
        "refine_face_landmarks": "True",
    }  # fmt: skip


def test_each_clip_has_a_graph_and_a_graph_that_failed_is_never_used_again(install):
    install("0.10.21")
    grey, black = np.full((4, 6, 3), 51, np.uint8), np.zeros((4, 6, 3), np.uint8)
    engine = open_estimator("mediapipe")
    made = sys.modules["mediapipe.python.solutions.holistic"].made
    one, other = engine.new_state(), engine.new_state()
    found = [engine.estimate([grey], [one]) for _ in range(3)]
    assert [each.points[0, 0, 1] for each in found] == [0.125, 0.25, 0.375]
    assert engine.estimate([grey], [other]).points[0, 0, 1] == 0.125
    with pytest.raises(TypeError, match="a graph of mediapipe cannot be copied"):
        one.copy()
    del one
    again = engine.new_state()
    assert engine.estimate([grey], [again]).points[0, 0, 1] == 0.125
    assert len(made) == 2, "an object is used again"
    with pytest.raises(RuntimeError, match="failed"):
        engine.estimate([black], [again])
    del again
    assert engine.estimate([grey], [engine.new_state()]).points[0, 0, 1] == 0.125
    assert len(made) == 3
    with pytest.raises(RuntimeError, match="failed"):
        engine.estimate([black])
    assert engine.estimate([grey]).points[0, 0, 1] == 0.125
    assert [each.options["static_image_mode"] for each in made] == [False] * 3 + [True] * 2


needs_stock = pytest.mark.skipif(
    not STOCK_PYTHON.exists(),
    reason=f"no {STOCK_PYTHON}: stock MediaPipe is installed there by `make bench`",
)
SCRIPT = """
import sys
import numpy as np
from posemill.estimators import open_estimator
frames = np.load("frames.npz")
frames = [frames[name] for name in frames.files]
kept = {}
for part, options in {"holistic": {}, "hands": {"max_num_hands": 4}, "face": {"max_num_faces": 3},
                      "pose": {}}.items():
    stock = "mediapipe" if part == "holistic" else f"mediapipe-{part}"
    engine = open_estimator(stock if sys.argv[1] == "stock" else part, **options)
    image = engine.estimate(frames)
    state = engine.new_state()
    video = [engine.estimate([frame], [state]) for frame in frames]
    kept[part + "_image"], kept[part + "_scores"] = image.points, image.scores
    kept[part + "_video"] = np.concatenate([each.points for each in video])
    if image.others is not None:
        kept[part + "_counts"], kept[part + "_others"] = image.others.counts, image.others.points
np.savez(sys.argv[1], **kept)
"""


def run(python, whose, folder):
    """Return what the script makes of `frames.npz` in some Python."""
    done = subprocess.run(
        [python, "-c", SCRIPT, whose],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with np.load(folder / f"{whose}.npz") as stored:
        return dict(stored)


@needs_stock
def test_our_engines_give_what_the_real_ones_give(shared, tmp_path):
    names = ("241", "536", "474")
    pictures = [read_picture(shared / f"media/images/COCO_val2014_000000000{name}.jpg")
                for name in names]  # fmt: skip
    np.savez(tmp_path / "frames.npz", *pictures)
    stock, ours = run(STOCK_PYTHON, "stock", tmp_path), run(sys.executable, "ours", tmp_path)
    assert set(stock) == set(ours)
    for part in ("holistic", "hands", "face"):  # stock does not say how sure it is of them
        is_sure, place = stock[f"{part}_scores"] == 1, f"{part}_scores"
        assert (ours[place][is_sure] > 0.5).all()
        stock[place] = np.where(is_sure, ours[place], stock[place])
    for name, expected in stock.items():
        np.testing.assert_allclose(ours[name], expected, atol=1e-5, err_msg=name)
    assert stock["hands_counts"].sum() + (~np.isnan(stock["hands_image"]).all((1, 2))).sum() >= 2
