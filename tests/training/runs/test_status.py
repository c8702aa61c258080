import json
import os
import re
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import psutil
import pytest
from cli_runner import said_by
from small_sets import held_by_another, killed_at

import posemill
from posemill.commands.runs import stop
from posemill.errors import ConfigError, RunError
from posemill.machine.live_files import write_live
from posemill.machine.processes import python_command
from posemill.training.front import train
from posemill.training.loop.trainer import Trainer
from posemill.training.record.live import hold, is_held
from posemill.training.runs.status import read_train_status


def test_status_of_a_training_while_it_runs_and_after_its_end(settings, monkeypatch):
    seen = []
    save = Trainer.save

    def look(self, *names):
        self.reporter.note()
        seen.append(read_train_status(self.folder.path))
        save(self, *names)

    monkeypatch.setattr(Trainer, "save", look)
    result = train(settings())
    out = result.out
    assert [each.state for each in seen] == ["running"] * 3
    assert (seen[1].epoch, seen[1].epochs) == (2, 3)
    assert (seen[1].step, seen[1].total_steps) == (8, 12)
    assert f"running, pid {os.getpid()} on {socket.gethostname()} since 20" in seen[0].headline()
    assert re.match(r"epoch 2/3, step 8/12 \(66.7%\), \d+ samples/s", seen[1].describe())
    assert seen[1].next_command() == f"posemill status {out} --watch"
    status = posemill.status(out)
    assert (status.state, status.step, status.checkpoint_step) == ("finished", 12, 12)
    assert status.chosen_by == "accuracy"
    assert (
        status.samples_per_second == result.summary["samples_per_second"]
    )  # not of the last steps
    text = said_by("status", out)
    assert f"{out}: finished\nepoch 3/3, step 12/12 (100.0%)" in text
    assert f"best accuracy {status.best:.4f} at step {status.best_step}" in text
    assert re.search(r"test +\d", text), "the scores"
    assert f"next: posemill evaluate {out} --split test" in text
    found = json.loads(said_by("status", out, "--json"))
    assert (found["state"], found["total_steps"], found["pid"]) == ("finished", 12, os.getpid())
    assert set(found["scores"]) == {"dev", "test"}
    lines = said_by("logs", out, "--follow").splitlines()
    assert f"start: pid {os.getpid()}" in lines[0]
    assert any("epoch 1, step 1: loss " in line for line in lines)
    assert any(re.search(r" epoch 3: loss \d", line) for line in lines)
    assert "finished: 12 steps, best at " in lines[-1]
    assert said_by("logs", out, "-n", 1).strip() == lines[-1]
    with pytest.raises(ConfigError, match=r"is a training; only the workers of extract have logs"):
        said_by("logs", out, "--worker", 1)
    with pytest.raises(ConfigError, match=r"is a training: failures lists clips"):
        said_by("status", out, "--failures")


def test_a_killed_training_says_how_far_it_is_and_the_command_that_continues_it(settings):
    fields = settings(epochs=2, save_every_steps=2)
    with killed_at(7):
        train(fields)
    status = read_train_status(Path(fields["out"]))
    assert (status.state, status.step, status.checkpoint_step) == ("stopped", 7, 6)
    assert "stopped before its end; pid" in status.headline()
    assert "left" not in status.describe()
    assert "samples/s" not in status.describe()
    assert status.last_lines[-1].endswith(" interrupted")
    command = status.next_command()
    assert command == f"posemill train {fields['out']}/config.toml --resume"
    assert "continued after step 6 of 8" in said_by(*command.split()[1:])
    assert read_train_status(Path(fields["out"])).state == "finished"


def test_a_training_started_from_elsewhere_or_of_an_own_model_has_its_own_command(tmp_path):
    (tmp_path / "log.txt").touch()
    (tmp_path / "config.toml").write_text('out = "elsewhere"\n')
    assert read_train_status(tmp_path).next_command() == (
        f"posemill train {tmp_path}/config.toml --resume --out {tmp_path}"
    )
    (tmp_path / "run.json").write_text('{"kind": "posemill-training", "identity": {"kind": "own"}}')
    assert read_train_status(tmp_path).next_command() == (
        f"posemill.fit(…, out={str(tmp_path)!r}, resume=True)"
    )


def test_early_stopping_is_said_at_the_end_and_again_by_who_resumes(settings):
    fields = settings(epochs=30, patience=1, lr=1e-9)
    summary = train(fields).summary
    (words,) = summary["last_words"]
    assert words == (
        f"stopped early after epoch {summary['epochs']} of 30: no better accuracy in 1 evaluation "
        f"(patience=1); the best was at step {summary['best_step']}"
    )
    assert words in said_by("logs", fields["out"])
    text = said_by("train", f"{fields['out']}/config.toml", "--resume")
    assert words in text, "with the same patience nothing is left to do"


def test_a_training_in_another_process_is_seen_and_can_be_stopped(tmp_path):
    for name in (".lock", "log.txt"):
        (tmp_path / name).touch()
    assert stop(tmp_path) is None
    with held_by_another(tmp_path) as pid:
        assert is_held(tmp_path)
        status = read_train_status(tmp_path)
        assert (status.state, status.pid) == ("running", pid)
        assert status.describe() == "no step yet"
        with pytest.raises(RunError, match=r"is being trained by another process; look with: pos"):
            hold(tmp_path, what="training").__enter__()
        assert stop(tmp_path) == pid
    assert read_train_status(tmp_path).state == "stopped"
    assert stop(tmp_path) is None


def test_a_signal_goes_only_to_whoever_holds_the_lock(tmp_path):
    (tmp_path / "log.txt").touch()
    waiting = [sys.executable, "-c", "input()"]
    with (
        hold(tmp_path, what="training"),
        subprocess.Popen(waiting, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as other,
    ):
        write_live(tmp_path, {"pid": 1, "host": "elsewhere"})
        with pytest.raises(RunError, match=r"by pid 1 on elsewhere: run posemill stop there"):
            stop(tmp_path)
        for pid in (other.pid, "x", [1], None):
            write_live(tmp_path, {"pid": pid, "host": socket.gethostname()})
            with pytest.raises(RunError, match=r"is not to be found here; nothing was stopped"):
                stop(tmp_path)


@pytest.mark.parametrize(
    "live",
    [
        '{"step": "many", "epoch": [], "seconds_left": NaN, "best": 1e999, "pid": true}',
        '{"step": 1.5, "total_steps": null, "host": 3, "written_at": {}}',
        "[" * 100_000,
    ],
)
def test_a_strangers_note_is_believed_only_where_it_makes_sense(tmp_path, live):
    (tmp_path / ".lock").touch()
    (tmp_path / "log.txt").write_text("evil \x1b]0;title\x07 line\n")
    (tmp_path / "live.json").write_text(live)
    (tmp_path / "summary.json").write_text('{"steps": "x", "scores": [1], "advice": 3}')
    status = read_train_status(tmp_path)
    assert (status.state, status.step, status.pid) == ("stopped", None, None)
    assert status.describe() == "no step yet"
    assert "\x1b" not in said_by("status", tmp_path)
    json.loads(said_by("status", tmp_path, "--json"))


@pytest.mark.parametrize("name", ["live.json", "log.txt", "summary.json", ".lock", "config.toml"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_parts_that_lead_outside_or_never_end_are_refused(tmp_path, name, kind):
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text('{"kind": "posemill-training"}')
    (tmp_path / "secret").write_text("{}")
    if kind == "link":
        (run / name).symlink_to(tmp_path / "secret")
    else:
        os.mkfifo(run / name)
    for ask in (posemill.status, partial(said_by, "logs"), stop):
        with pytest.raises(RunError, match=r"expected a file; a run keeps all its parts"):
            ask(run)


def test_status_and_the_configuration_need_no_torch():
    code = (
        "import sys, posemill.commands.runs, posemill.training.config.resolve, "
        "posemill.training.runs.status; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_watching_a_training_ends_with_it(tmp_path, start_process):
    (tmp_path / "log.txt").touch()
    with hold(tmp_path, what="training"):
        write_live(tmp_path, {"step": 1, "total_steps": 4, "pid": 1, "host": "x"})
        watching = start_process(
            python_command("posemill", "status", str(tmp_path), "--watch"),
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        with pytest.raises(psutil.TimeoutExpired):
            watching.wait(3)
    assert "stopped before its end" in watching.communicate(timeout=60)[0]
