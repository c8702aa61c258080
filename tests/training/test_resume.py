"""A training that is killed at any step and continued gives the weights of one that was not."""

import random
import signal
from functools import partial
from multiprocessing import get_context

import numpy as np
import pytest
import torch
from small_sets import QUIET, assert_same_run, killed_at, write_bars
from torch import Tensor, nn

from posemill.training.config.train_config import TrainConfig
from posemill.training.fitting.workload import make_user_workload
from posemill.training.launch.rank import train_rank
from posemill.training.ranks import run_ranks
from posemill.training.record.run_folder import RunFolder
from posemill.training.runtime import Runtime
from posemill.training.tasks.workload import build_workload

pytestmark = pytest.mark.usefixtures("warm_children")

NUM_CLIPS = 20
CASES = ("keypoints", "video", "two_streams", "multigrid", "fit")
SAVED = QUIET | {
    "epochs": 2, "batch_size": 4, "micro_batch": 2, "save_every_steps": 2, "log_every": 1,
}  # fmt: skip


class Noisy(torch.utils.data.Dataset[tuple[Tensor, int]]):
    """Samples that draw from torch's generator, as augmentations of users do."""

    def __len__(self):
        return NUM_CLIPS

    def __getitem__(self, index):
        return torch.full((5,), index % 3 - 1.0) + 0.3 * torch.randn(5), index % 3


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Videos in a list, and keypoints of the same clips."""
    folder = tmp_path_factory.mktemp("data")
    lines = write_bars(folder, 16, NUM_CLIPS - 16).read_text()
    (folder / "labels.csv").write_text(lines.replace("path", "video_id").replace(".mp4", ""))
    rng, points, ids = np.random.default_rng(0), [], []
    for number in range(NUM_CLIPS):
        points.append(rng.normal(size=(6 + number % 3, 4, 2)))
        ids += [f"clip{number}"] * len(points[-1])
    np.savez(folder / "all.npz", keypoints=np.concatenate(points).astype(np.float32), video_ids=ids)
    return folder


def settings(data, case):
    keypoints = {
        "data": str(data / "all.npz"),
        "labels": str(data / "labels.csv"),
        "normalize": "none",
        "model": "mlp",
        "augment_noise": 0.1,
    }
    video = {
        "data": str(data / "videos.csv"),
        "model": "tsm",
        "model_options": {"width": 0.25},
        "video_sampling": "segments:2",
        "video_size": 32,
    }
    streams = {
        **video,
        "data": [keypoints["data"], video["data"]],
        "model": "two_streams",
        "model_options": {"keypoint_model": "mlp", "video_options": {"width": 0.25}},
    }
    grid = {**keypoints, "model": "stgcn", "multigrid": True, "batch_size": 4, "micro_batch": 4}
    loaded = {**video, "workers": 1, "ema_decay": 0.9}
    kinds = {"keypoints": keypoints, "video": loaded, "two_streams": streams, "multigrid": grid}
    return SAVED | kinds.get(case, {})


def make_net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.3), nn.ReLU(), nn.Linear(8, 3))


def make_workload(case, config):
    if case != "fit":
        return build_workload(config)
    loss = nn.functional.cross_entropy
    return make_user_workload(make_net(), (Noisy(), Noisy()), config, loss=loss)


def train_case(data, out, case, name, *, mode, runtime, **changes):
    """Train once in a folder of this name; return the steps that were taken."""
    made = {"parallel": mode, "processes": runtime.size, "threads": 1}
    config = TrainConfig(**settings(data, case) | made | changes, out=str(out / name))
    folder = RunFolder(out / name)
    if runtime.is_first:
        folder.path.mkdir(parents=True, exist_ok=True)
    runtime.gather(None)  # all wait for the folder
    make = partial(make_workload, case, config)
    return int(train_rank(make, config, folder, runtime)["steps"])


def train_cut(data, out, case, *, mode, num_steps, runtime, seed):
    """Train, killed and continued; return the step that the kill came before."""
    run = partial(train_case, data, out, case, mode=mode, runtime=runtime)
    step = random.Random(seed).randrange(2, num_steps)
    with killed_at(step):
        run("cut")
    run("cut", resume=True)
    return step


@pytest.mark.parametrize("case", CASES)
def test_a_training_killed_at_a_random_step_continues_to_the_bit(data, tmp_path, case):
    alone = Runtime()
    num_steps = train_case(data, tmp_path, case, "whole", mode="single", runtime=alone)
    for mode in ("single", "multi_thread"):  # whose batches are those of one thread
        seed = random.randrange(1 << 30)
        step = train_cut(
            data, tmp_path / mode, case, mode=mode, num_steps=num_steps, runtime=alone, seed=seed
        )
        what = f"{case} in mode {mode} killed before step {step}"
        assert_same_run(tmp_path / "whole", tmp_path / mode / "cut", what)


def test_several_processes_killed_at_a_random_step_continue_to_the_bit(data, tmp_path):
    # Processes take seconds to start: the same two train everything.
    config = TrainConfig(mode="multi_process", processes=2, threads=1)
    seed = random.randrange(1 << 30)
    for case, step in run_ranks(partial(_train_all, data, tmp_path, seed), config).items():
        what = f"{case} killed before step {step}"
        assert_same_run(tmp_path / case / "whole", tmp_path / case / "cut", what)


def _train_all(data, out, seed, runtime):
    steps = {}
    for case in CASES:
        same = {"mode": "multi_process", "runtime": runtime}
        num_steps = train_case(data, out / case, case, "whole", **same)
        steps[case] = train_cut(data, out / case, case, num_steps=num_steps, seed=seed, **same)
    return steps


def test_a_process_that_was_killed_leaves_what_continues_to_the_bit(data, tmp_path):
    run = partial(train_case, data, tmp_path, "keypoints", mode="single", runtime=Runtime())
    step = random.randrange(3, run("whole"))  # the first checkpoint is that of step 2
    child = get_context("fork").Process(target=_train_until_killed, args=(run, step))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    run("cut", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "cut", f"killed before step {step}")


def _train_until_killed(run, step):
    with killed_at(step, by=signal.SIGKILL):
        run("cut")
