import csv
import shutil
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `small_sets`

collect_ignore_glob = [] if find_spec("torch") else ["test_*.py", "*/test_*.py"]

NUM_CLASSES, NUM_POINTS = 3, 6


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    """Caches of the tests do not mix with the user's."""
    monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="session", autouse=True)
def _prepare_torch():
    """One thread, as OpenMP threads wait for each other on a busy machine; AMX off if it traps.

    A user would set the variable, and bf16 then works in this process as on any other machine.
    """
    import torch

    from posemill.training.bf16 import ISA_VARIABLE, WITHOUT_AMX, try_bf16
    from posemill.training.lazy_dynamo import load_dynamo_late

    torch.set_num_threads(1)
    load_dynamo_late()  # for tests that use torch's optimizers without a training
    with pytest.MonkeyPatch.context() as patch:
        # Ours are no DTensor, and to see that `assert_close` loads the compiler: 2 s a shard.
        patch.setattr("torch.testing._comparison._HAS_DTENSOR", False)
        if try_bf16().needs_amx_off:
            patch.setenv(ISA_VARIABLE, WITHOUT_AMX)
            try_bf16.cache_clear()
        yield


@pytest.fixture(scope="session")
def clips_folder(tmp_path_factory):
    """44 clips of 5 to 12 frames and 6 points, three classes that differ in how the points move."""
    folder = tmp_path_factory.mktemp("clips")
    rng = np.random.default_rng(0)
    rows = []
    for split, count in (("train", 28), ("dev", 8), ("test", 8)):
        points, ids = [], []
        for index in range(count):
            label, frames = index % NUM_CLASSES, int(rng.integers(5, 13))
            base = rng.normal(size=(1, NUM_POINTS, 2)) * 0.1 + 1
            moves = np.linspace(0, 1, frames)[:, None, None] * (label - 1)
            clip = base + moves + rng.normal(size=(frames, NUM_POINTS, 2)) * 0.02
            points.append(clip.astype(np.float32))
            ids += [f"{split}{index}"] * frames
            rows.append((f"{split}{index}", f"class{label}", split))
        np.savez(folder / f"{split}_keypoints.npz", keypoints=np.concatenate(points), video_ids=ids)
    with (folder / "labels.csv").open("w", newline="") as handle:
        csv.writer(handle).writerows([("video_id", "label", "split"), *rows])
    return folder


@pytest.fixture
def settings(make_settings, tmp_path):
    """Return `make_settings` with the folder of the test's own run."""
    return partial(make_settings, out=str(tmp_path / "run"))


@pytest.fixture(scope="session")
def trained(make_settings, tmp_path_factory):
    """What came of a training of one epoch, which no test changes."""
    from posemill.training.front import train

    return train(make_settings(epochs=1, out=str(tmp_path_factory.mktemp("trained") / "run")))


@pytest.fixture
def run(trained, tmp_path):
    """The folder of a training of one epoch, where `settings` has its own; to be changed."""
    return Path(shutil.copytree(trained.out, tmp_path / "run"))


@pytest.fixture(scope="session")
def make_settings(clips_folder):
    """Return a function that gives the fields of a quick, quiet training; keywords change them."""

    def make(**changes):
        from small_sets import QUIET

        return QUIET | {
            "data": str(clips_folder),
            "labels": str(clips_folder / "labels.csv"),
            "model": "transformer",
            "model_options": {"width": 16, "num_layers": 1, "num_heads": 2},
            "normalize": "none",
            "epochs": 3,
            "batch_size": 8,
            "micro_batch": 8,
            "lr": 0.01,
            "eval_every": 1,
            "save_every": 1,
            "log_every": 1,
            **changes,
        }

    return make
