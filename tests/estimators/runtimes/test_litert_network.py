"""Networks on LiteRT: their numbers, and what LiteRT writes where."""

import errno
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

from posemill.estimators.runtimes import litert_network
from posemill.estimators.runtimes.litert_network import LiteRTNetwork

SOURCES = Path(__file__).parents[3] / "src"
TALKATIVE = """
import os, sys
from posemill.estimators.runtimes import litert_network
real = litert_network.cached_model
def load(*args, **options):
    os.write(2, b"something else\\n")
    return real(*args, **options)
litert_network.cached_model = load
litert_network.LiteRTNetwork("hand_recrop")
litert_network.LiteRTNetwork("face_landmark")
"""


def test_only_the_greeting_is_lost_and_the_order_of_the_rest_is_kept(monkeypatch, capfd):
    monkeypatch.setattr(litert_network, "_has_greeted", False)
    with open(2, "w", closefd=False) as buffered:
        monkeypatch.setattr(sys, "stderr", buffered)
        buffered.write("before\n")
        with litert_network._without_greeting():
            assert capfd.readouterr().err == "before\n"
            os.write(2, b"native\n" + litert_network._GREETING + b"\nmore\n")
            buffered.write("late\n")
        assert capfd.readouterr().err == "native\nmore\nlate\n"


def test_the_outputs_of_a_run_are_not_changed_by_the_next(model_files, photo):
    network = LiteRTNetwork("hand_recrop")
    first = np.ascontiguousarray(photo[None, :256, :256])
    outputs = network.run(first)
    kept = [output.copy() for output in outputs]
    network.run(np.ascontiguousarray(photo[None, 200:456, 200:456]))
    np.testing.assert_array_equal(outputs[0], kept[0])
    np.testing.assert_array_equal(network.run(first)[0], kept[0])


def run_python(code):
    """Return what a program prints and what it writes to its standard error."""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
    )  # fmt: skip
    return result.stdout, result.stderr


def test_litert_does_not_greet_on_the_terminal_and_all_else_comes_out(model_files):
    assert run_python(TALKATIVE) == ("", "something else\n" * 2)


@pytest.mark.parametrize("stderr", ["None", "open(os.devnull, 'w')"])
def test_a_process_without_a_standard_error_can_run_networks(model_files, stderr):
    code = f"import os; os.close(2); import sys; sys.stderr = {stderr}\n"
    code += "from posemill.estimators.runtimes.litert_network import LiteRTNetwork\n"
    code += "print(LiteRTNetwork('hand_recrop').size)"
    assert run_python(code)[0] == "256\n"


def test_a_system_without_a_place_for_files_can_run_networks_and_a_pull_is_seen_meanwhile(
    model_files, monkeypatch
):
    def full():
        raise OSError(errno.ENOSPC, "No space left on device")

    def load(name, make, *, suffix):
        seen.append(os.fstat(2))
        return make()

    seen = []
    monkeypatch.setattr(litert_network, "cached_model", load)
    for make_file in (tempfile.TemporaryFile, full):
        monkeypatch.setattr(litert_network, "_has_greeted", False)
        monkeypatch.setattr(litert_network.tempfile, "TemporaryFile", make_file)
        assert LiteRTNetwork("hand_recrop").size == 256
    assert all(os.path.samestat(file, os.fstat(2)) for file in seen)


def test_threads_that_open_networks_at_once_leave_the_standard_error_where_it_was(monkeypatch):
    monkeypatch.setattr(litert_network, "_has_greeted", False)
    before, is_in, may_leave = os.fstat(2), threading.Event(), threading.Event()

    def second():
        with litert_network._without_greeting():
            is_in.set()
            may_leave.wait()

    thread = threading.Thread(target=second)
    with litert_network._without_greeting():
        thread.start()
        # A lock keeps it out until the first is done, which is what this waits for in vain.
        is_in.wait(0.2)
    may_leave.set()
    thread.join()
    assert os.path.samestat(before, os.fstat(2))
