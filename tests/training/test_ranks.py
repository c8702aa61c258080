import faulthandler
import multiprocessing.spawn
import os
import signal
import subprocess
import sys
import time
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import psutil
import pytest
import torch
from small_sets import NO_DROPOUT, losses_of

import posemill
from posemill.errors import RunError, TrainingError
from posemill.training.config.resolve import Resolved
from posemill.training.config.train_config import TrainConfig
from posemill.training.front import train
from posemill.training.ranks import run_ranks
from posemill.training.record.run_folder import RunFolder
from posemill.training.tuning import modes

pytestmark = pytest.mark.usefixtures("warm_children")

COLD_PYTHON = sys.executable
SOURCES = str(Path(posemill.__file__).parent.parent)


@pytest.fixture
def cold_children(warm_children, monkeypatch):
    """Ranks are children of who started them: the warm ones are those of the warm process."""
    multiprocessing.spawn.set_executable(COLD_PYTHON)


def test_all_modes_give_the_same_losses_and_weights(settings, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(modes, "count_cores", lambda: 2)
    # 28 clips in steps of 8: the last step has 4; micro-batches of 3 make it uneven, too.
    # Plain sgd: adam would blow the rounding of gradients that are zero (key biases) up to lr.
    fields = settings(model_options=NO_DROPOUT, augment_noise=0.01, epochs=1, micro_batch=3,
                      optimizer="sgd", lr=0.1, missing_labels="drop")  # fmt: skip
    labels = Path(fields["labels"]).read_text().splitlines()
    fields["labels"] = str(tmp_path / "labels.csv")  # all but for the last clip of test
    Path(fields["labels"]).write_text("\n".join(labels[:-1]))
    changes = {"single": {}, "multi_thread": {"threads": 2},
               "multi_process": {"processes": 2, "progress": True}}  # fmt: skip
    runs = {
        mode: train(fields | more | {"parallel": mode, "out": str(tmp_path / mode)})
        for mode, more in changes.items()
    }
    said = capfd.readouterr().err
    assert "starting 2 processes …\n" in said
    assert "are left out" not in said  # a warning of this process, and not of each again
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
    fields |= {"out": str(tmp_path / "multi_process"), "epochs": 2}
    continued = train(fields | {"parallel": "single", "resume": True})
    assert continued.summary["steps"] == 8
    notes = continued.summary["notes"]
    assert any("continued with 1 processes instead of 2" in note for note in notes)


def test_a_rank_that_fails_ends_the_others_and_its_error_is_raised():
    config = TrainConfig(mode="multi_process", processes=2, threads=1)
    with pytest.raises(RunError, match=r"no room in the first; choose another out") as caught:
        run_ranks(_fail, config)
    assert caught.value.sentence.template == "no room in {where}; choose another {--out}"


def _fail(runtime):
    if runtime.is_first:
        raise RunError("no room in {where}; choose another {--out}", where="the first")
    time.sleep(300)
    return {}


def test_ranks_leave_with_their_parent(tmp_path, cold_children):
    parent = get_context("fork").Process(target=_run_waiting_rank, args=(tmp_path / "rank",))
    parent.start()
    deadline = time.monotonic() + 120
    while not (tmp_path / "rank").exists():
        assert parent.is_alive(), "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    children = psutil.Process(parent.pid).children(recursive=True)
    assert children
    parent.kill()
    parent.join()
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive


def _run_waiting_rank(sign):
    config = TrainConfig(parallel="multi_process", processes=1, threads=1)
    run_ranks(partial(_wait_for_ever, sign), config)


def _wait_for_ever(sign, _):
    sign.touch()
    time.sleep(300)
    return {}


def test_a_rank_that_dies_is_reported_with_its_code():
    config = TrainConfig(mode="multi_process", processes=1, threads=1)
    with pytest.raises(TrainingError, match=r"posemill-rank-0 .*exit code 7.*resume=True"):
        run_ranks(partial(_leave, 7), config)
    with pytest.raises(TrainingError, match=r"illegal instruction \(SIGILL\)\..*precision=.fp32"):
        run_ranks(_trap, config)


def _trap(_):
    faulthandler.disable()
    os.kill(os.getpid(), signal.SIGILL)
    return {}


def _leave(code, _):
    os._exit(code)


def test_torchrun_is_recognised_and_its_world_is_used(settings, tmp_path):
    fields = settings(parallel="auto", epochs=1, model_options=NO_DROPOUT)
    train(fields | {"parallel": "single", "out": str(tmp_path / "single")})
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


def test_processes_that_take_too_long_are_ended(tmp_path):
    config = TrainConfig(parallel="multi_process", processes=1, threads=1)
    started = time.monotonic()
    with pytest.raises(TrainingError, match="several processes took more than 1 s"):
        run_ranks(partial(_wait_for_ever, tmp_path / "rank"), config, most_seconds=1.0)
    assert time.monotonic() - started < 60
