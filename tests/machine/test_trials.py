import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from posemill.machine import trials
from posemill.machine.trials import Outcome, describe_exit, kept_outcomes, run_child, run_in_fork

HAS_FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot copy a process")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@HAS_FORK
def test_a_copy_of_the_process_answers_traps_hangs_or_fails():
    def fail():
        raise RuntimeError("could not create a primitive\nsecond line")

    well = Outcome(True, seconds={"step": 0.5})
    assert run_in_fork(lambda: {"step": 0.5}, timeout_seconds=60) == well
    trapped = run_in_fork(lambda: os.kill(os.getpid(), signal.SIGILL), timeout_seconds=60)
    assert trapped.reason == "illegal instruction (SIGILL)"
    hanging = run_in_fork(lambda: time.sleep(600), timeout_seconds=0.2)
    assert hanging == Outcome(False, "no answer within 0.2 s")
    failed = run_in_fork(fail, timeout_seconds=60)
    assert failed == Outcome(False, "RuntimeError: could not create a primitive")


@HAS_FORK
def test_ctrl_c_ends_a_copy_of_the_process_and_nobody_sees_its_traceback(capfd):
    def interrupt():
        parent = psutil.Process().parent()
        while parent.status() != psutil.STATUS_SLEEPING:  # what comes within `os.fork` is lost
            time.sleep(0.001)
        parent.send_signal(signal.SIGINT)
        time.sleep(600)

    children = psutil.Process().children()  # of other tests
    with pytest.raises(KeyboardInterrupt):
        run_in_fork(interrupt, timeout_seconds=60)
    assert psutil.Process().children() == children
    assert run_in_fork(lambda: {}["x"], timeout_seconds=60).reason == "ended with exit code 1"
    assert capfd.readouterr().err == ""


def test_a_command_answers_traps_hangs_or_fails():
    def run(code, timeout_seconds=60):
        return run_child([sys.executable, "-c", code], timeout_seconds=timeout_seconds)

    assert run("print('well')") == (Outcome(True), "well\n")
    assert run("import sys; sys.exit(3)")[0].reason == "ended with exit code 3"
    assert run("raise ValueError('bad')")[0].reason == "ValueError: bad"
    assert run("import time; time.sleep(600)", 0.2)[0].reason == "no answer within 0.2 s"
    nobody = run_child(["/nowhere/python"], timeout_seconds=1)[0].reason
    assert nobody == "it could not be started: No such file or directory"


def test_the_end_of_a_process_is_named():
    assert describe_exit(-signal.SIGILL) == "illegal instruction (SIGILL)"
    assert describe_exit(-signal.SIGSEGV) == "killed by SIGSEGV"
    assert describe_exit(-250) == "ended with exit code -250"


def test_an_answer_is_kept_for_the_same_facts_and_a_failure_for_a_day(monkeypatch):
    asked = []

    def ask(name, version, *, works=True):
        def answer():
            asked.append(works)
            return [Outcome(works, "" if works else "trap", {"fp32": 0.5})]

        return kept_outcomes(name, {"torch": version}, answer)[0]

    for _ in range(2):
        assert ask("a", "1") == Outcome(True, "", {"fp32": 0.5})
        assert ask("b", "1", works=False).reason == "trap"
    assert asked == [True, False]
    ask("a", "2")
    assert len(asked) == 3, "another version"
    monkeypatch.setattr(trials, "machine_facts", lambda: {"flags": "others"})
    ask("a", "2")
    ask("b", "2", works=False)
    assert len(asked) == 5, "another machine"
    later = time.time() + 25 * 3600
    monkeypatch.setattr(time, "time", lambda: later)
    ask("a", "2", works=False)
    assert len(asked) == 5
    assert ask("b", "2").works, "a failure is tried again after a day"


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"outcomes": [1], "tried_at": 0}', '{"outcomes": [{"works": 1}], "tried_at": "x"}'],
)
def test_a_broken_file_is_tried_again_and_replaced(cache, content):
    kept_outcomes("a", {}, lambda: [Outcome(True)])
    (path,) = (cache / "trials").iterdir()
    path.write_text(content)
    assert kept_outcomes("a", {}, lambda: [Outcome(False, "new")])[0].reason == "new"
    assert kept_outcomes("a", {}, lambda: [])[0].reason == "new"


def test_a_cache_that_cannot_be_written_keeps_nothing_and_answers(cache):
    cache.write_text("a file, not a folder")
    assert kept_outcomes("a", {}, lambda: [Outcome(True)])[0].works
    assert kept_outcomes("a", {}, lambda: [Outcome(False)])[0].works is False


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is of Linux")
def test_an_answer_holds_for_one_kind_of_processor(monkeypatch):
    facts = {"model name": "A1", "microcode": "0x7", "flags": "amx", "Features": "asimd"}
    text = "".join(f"{name}\t: {value}\n" for name, value in facts.items())
    monkeypatch.setattr(Path, "read_text", lambda *_: f"{text}\nmodel name: second\n")
    assert facts.items() <= trials.machine_facts().items()
    assert trials.machine_facts()["boot"]


def _works_in_a_fork():
    return run_in_fork(lambda: {"x": 1.0}, timeout_seconds=60).seconds


def test_a_worker_of_a_pool_may_try_things_too():
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(_works_in_a_fork) == {"x": 1.0}
