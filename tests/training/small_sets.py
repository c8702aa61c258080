"""Quiet settings, sets of samples in memory, and states of checkpoints to compare, for tests."""

import os
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from posemill.training.data.cache import Store
from posemill.training.data.clips import Clips
from posemill.training.data.keypoint_clips import KeypointClips
from posemill.training.front import train
from posemill.training.loop.stepping import Stepper
from posemill.training.record.run_folder import RunFolder

NO_DROPOUT = {"width": 16, "num_layers": 1, "num_heads": 2, "dropout": 0.0}  # of a transformer
QUIET = {
    "parallel": "single", "precision": "fp32", "workers": 0, "progress": False,
    "tensorboard": False, "figures": False,
}  # fmt: skip


def make_set(samples, class_names, *, skeleton_name=None, task="classify"):
    """Return a set of samples that are already in memory, as they are."""
    offsets = np.cumsum([0, *(len(sample.points) for sample in samples)], dtype=np.int64)
    points = np.concatenate([sample.points for sample in samples]).astype(np.float32)
    mask = np.concatenate([sample.mask for sample in samples]).astype(bool)
    return KeypointClips(
        store=Store(partial(dict, offsets=offsets, points=points, mask=mask)),
        rows=np.arange(len(samples)),
        targets=tuple(sample.target for sample in samples),
        keys=tuple(("train", f"sample{index}") for index in range(len(samples))),
        class_names=tuple(class_names),
        skeleton_name=skeleton_name,
        task=task,
    )


def assert_same_state(first, second, where="state"):
    """Fail unless two states of checkpoints have the same values, bit for bit."""
    assert type(first) is type(second), where
    if isinstance(first, torch.Tensor | np.ndarray | np.generic):
        assert (first.dtype, first.shape) == (second.dtype, second.shape), where
        assert bool((first == second).all()), where
    elif isinstance(first, dict):
        assert list(first) == list(second), where
        for key, value in first.items():
            assert_same_state(value, second[key], f"{where}.{key}")
    elif isinstance(first, list | tuple):
        assert len(first) == len(second), where
        for index, (one, other) in enumerate(zip(first, second, strict=True)):
            assert_same_state(one, other, f"{where}[{index}]")
    else:
        assert first == second, where


class BareClips(Clips):
    """Clips of which only the number is known, and perhaps a picture."""

    def __init__(self, count, picture=lambda _: None):
        self.lengths, self._picture = np.ones(count, np.int64), picture

    def __getitems__(self, draws):
        raise AssertionError("nobody asks for batches")

    def picture(self, index):
        return self._picture(index)


def losses_of(run):
    return [row["loss"] for row in RunFolder(run).read_metrics() if row["event"] == "train"]


def assert_same_run(first, second, what="run"):
    """Fail unless two trainings have the same last checkpoint and the same lines, bit for bit."""
    (one, rows), (other, other_rows) = (
        (
            run.checkpoints.load("last"),
            [[row["event"], row["step"], row["loss"], row.get("lr")] for row in run.read_metrics()],
        )
        for run in (RunFolder(first), RunFolder(second))
    )
    assert_same_state(dict(one.weights), dict(other.weights), what)
    assert_same_state(one.state, other.state, what)
    assert rows == other_rows, what


def refused(fields, error, message):
    """Fail unless a training is refused before its first checkpoint."""
    with pytest.raises(error, match=message):
        train(fields)
    assert not (Path(fields["out"]) / "checkpoints").exists()


def write_bar(path, label, seed, num_frames=6):
    """Write a video of a bright bar that `falls` or `rises`: no frame alone tells which."""
    rng = np.random.default_rng(seed)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"mp4v"), 10, (24, 24))
    for number in range(num_frames):
        step = number if label == "falls" else num_frames - 1 - number
        frame = rng.integers(0, 60, (24, 24, 3), np.uint8)
        frame[3 * step + 2 : 3 * step + 6] = 250
        writer.write(frame)
    writer.release()


class Harm:
    """Touches a file when it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


WAYS = ("falls", "rises")


def write_bars(folder, num_train, num_dev):
    """Write bars that fall and rise in turns, on two days; return the list of them."""
    rows = ["path,split,label,recorded_at"]
    for number in range(num_train + num_dev):
        label, split = WAYS[number % 2], "train" if number < num_train else "dev"
        write_bar(folder / f"clip{number}.mp4", label, number)
        rows.append(f"clip{number}.mp4,{split},{label},day{number // 2 % 2}")
    (folder / "videos.csv").write_text("\n".join(rows))
    return folder / "videos.csv"


HOLD = """
import sys
from pathlib import Path
from posemill.training.record.live import hold
with hold(Path(sys.argv[1]), what="training"):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held_by_another(run):
    """Let another process, whose number is given, hold the lock of a training in the block."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(run)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"held\n"
        yield process.pid


@contextmanager
def killed_at(step, *, by=None):
    """Let the training in the block end before it takes step + 1: by Ctrl-C, or a signal."""
    take = Stepper.take

    def count(self, *args, **options):
        if self.steps_taken == step:
            if by:
                os.kill(os.getpid(), by)
            raise KeyboardInterrupt
        take(self, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stepper, "take", count)
        with pytest.raises(KeyboardInterrupt):
            yield
