from __future__ import annotations

import faulthandler
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

import posemill
from posemill.errors import RunError, TrainingError
from posemill.training.config.resolve import Resolved
from posemill.training.config.train_config import TrainConfig
from posemill.training.launch.start import train
from posemill.training.ranks import RankSpec, run_ranks
from posemill.training.record.run_folder import RunFolder
from posemill.training.tuning import modes, probe

pytestmark = pytest.mark.usefixtures("warm_children")

Settings = Callable[..., dict[str, Any]]
COLD_PYTHON = sys.executable
SOURCES = str(Path(posemill.__file__).parent.parent)
NO_DROPOUT = {"width": 16, "num_layers": 1, "num_heads": 2, "dropout": 0.0}


@pytest.fixture
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (modes, probe):
        monkeypatch.setattr(module, "count_cores", lambda: 2)


def losses_of(run: Path) -> list[float]:
    return [row["loss"] for row in RunFolder(run).read_metrics()]


@pytest.mark.usefixtures("_two_cores")
def test_all_modes_give_the_same_losses_and_weights(settings: Settings, tmp_path: Path) -> None:
    # 28 clips in steps of 8: the last step has 4; micro-batches of 3 make it uneven, too.
    # Plain sgd: adam would blow the rounding of gradients that are zero (key biases) up to lr.
    fields = settings(model_options=NO_DROPOUT, augment_noise=0.01, epochs=1, micro_batch=3,
                      optimizer="sgd", lr=0.1)  # fmt: skip
    changes = {
        "single": {},
        "multi_thread": {"threads": 2},
        "multi_process": {"processes": 2},
    }
    runs = {
        mode: train(fields | more | {"mode": mode, "out": str(tmp_path / mode)})
        for mode, more in changes.items()
    }
    assert runs["multi_process"].summary["processes"] == 2
    assert runs["multi_thread"].summary["threads"] == 2
    expected = losses_of(tmp_path / "single")
    weights = RunFolder(tmp_path / "single").checkpoints.load("last").weights
    for mode in ("multi_thread", "multi_process"):
        assert losses_of(tmp_path / mode) == pytest.approx(expected, abs=1e-5)
        other = RunFolder(tmp_path / mode).checkpoints.load("last").weights
        for name, value in weights.items():
            torch.testing.assert_close(other[name], value, atol=1e-5, rtol=1e-4)
        for split, scores in runs["single"].scores.items():
            assert runs[mode].scores[split] == pytest.approx(scores, abs=1e-4)


@pytest.mark.usefixtures("_two_cores")
def test_a_rank_that_fails_ends_the_others_and_its_error_is_raised(settings: Settings) -> None:
    fields = settings(mode="multi_process", processes=2, lr=1e18, optimizer="sgd",
                      clip_grad_norm=0, warmup_epochs=0.0)  # fmt: skip
    with pytest.raises(TrainingError, match=r"the loss became .*: lower lr"):
        train(fields)


def test_ranks_leave_with_their_parent_and_one_process_can_continue(
    settings: Settings, tmp_path: Path, start_process: Callable[..., psutil.Popen]
) -> None:
    fields = settings(model_options=NO_DROPOUT, epochs=1000, save_every_steps=1, eval_every=1000,
                      optimizer="sgd")  # fmt: skip
    config = tmp_path / "config.toml"
    ranks = {"mode": "multi_process", "processes": 2}
    config.write_text(Resolved.of(TrainConfig(**fields | ranks)).to_toml(), encoding="utf-8")
    parent = start_process(
        [COLD_PYTHON, "-m", "posemill", "train", str(config)],
        env={**os.environ, "PYTHONPATH": SOURCES, "OMP_NUM_THREADS": "1"},
    )
    last = Path(fields["out"]) / "checkpoints" / "last.json"
    deadline = time.monotonic() + 120
    while not (last.is_file() and json.loads(last.read_text())["step"] >= 2):
        assert parent.poll() is None, "the training ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    children = parent.children(recursive=True)
    assert len(children) >= 2
    with pytest.raises(RunError, match="is being trained by another process"):
        train(fields | {"resume": True})
    parent.kill()
    parent.wait()
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive
    step = json.loads(last.read_text())["step"]
    result = train(fields | {"resume": True, "max_steps": step + 3})
    assert result.summary["steps"] == step + 3
    assert any("continued with 1 processes instead of 2" in n for n in result.summary["notes"])


def test_a_rank_that_dies_is_reported_with_its_code() -> None:
    config = TrainConfig(mode="multi_process", processes=1, threads=1)
    with pytest.raises(TrainingError, match=r"posemill-rank-0 .*exit code 7.*resume=True"):
        run_ranks(partial(_leave, 7), config)
    with pytest.raises(TrainingError, match=r"illegal instruction \(SIGILL\)\..*precision=.fp32"):
        run_ranks(_trap, config)


def _trap(_: object) -> dict[str, Any]:
    faulthandler.disable()
    os.kill(os.getpid(), signal.SIGILL)
    return {}


def _leave(code: int, _: object) -> dict[str, Any]:
    os._exit(code)


def test_what_cannot_be_sent_to_a_process_is_said() -> None:
    config = TrainConfig(mode="multi_process", processes=1, threads=1)
    with pytest.raises(TrainingError, match=r"one of them cannot be sent.*parallel=.multi_thread"):
        run_ranks(lambda _: {}, config)


def test_torchrun_is_recognised_and_its_world_is_used(settings: Settings, tmp_path: Path) -> None:
    fields = settings(mode="auto", epochs=1, model_options=NO_DROPOUT)
    train(fields | {"mode": "single", "out": str(tmp_path / "single")})
    config = tmp_path / "config.toml"
    config.write_text(Resolved.of(TrainConfig(**fields)).to_toml(), encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         "-m", "posemill", "train", str(config)],
        env={**os.environ, "PYTHONPATH": SOURCES, "OMP_NUM_THREADS": "1"},
        check=False,
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    summary = RunFolder(fields["out"]).read_summary()
    assert (summary["processes"], summary["mode"]) == (2, "multi_process")
    assert summary["mode_reason"] == "torchrun started 2 processes"
    expected = losses_of(tmp_path / "single")
    assert losses_of(Path(fields["out"])) == pytest.approx(expected, abs=1e-5)


def test_what_a_rank_has_to_know_stays_as_it_is() -> None:
    spec = RankSpec(0, 2, 1, "cpu")
    with pytest.raises(FrozenInstanceError):
        spec.rank = 1  # type: ignore[misc]


def test_processes_that_take_too_long_are_ended() -> None:
    config = TrainConfig(parallel="multi_process", processes=2, threads=1)
    started = time.monotonic()
    with pytest.raises(TrainingError, match="several processes took more than 1 s"):
        run_ranks(_sleep, config, most_seconds=1.0)
    assert time.monotonic() - started < 60


def _sleep(_: object) -> dict[str, Any]:
    time.sleep(300)
    return {}
