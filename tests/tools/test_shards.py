"""The runner of the tests: what becomes of shards that fail, die and hang."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tools.shards import split_files

ROOT = Path(__file__).parents[2]
DYING = """
import os, signal

def test_before(): pass
def test_trap(): os.kill(os.getpid(), signal.SIGILL)
def test_after(): pass
"""
FAILING = """
import pytest

@pytest.fixture
def bad_end():
    yield
    raise OSError("the tear-down is wrong")

def test_good(): pass
def test_wrong(): assert 1 + 1 == 3
def test_skipped(): pytest.skip("not here")
def test_bad_end(bad_end): pass
"""
HANGING = """
import time
import pytest

@pytest.mark.timeout(1)
def test_hang(): time.sleep(60)
def test_after(): pass
"""
BUSY = """
import subprocess, sys, time

def test_it():
    loop = "import time\\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", loop], check=True)
    time.sleep(0.3)
"""


@pytest.fixture
def project(tmp_path):
    """A project of its own with an empty folder of tests."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\ntimeout_method = "thread"\n'
    )
    return tmp_path


def command(*options):
    return [sys.executable, "-m", "tools.shards", *options]


def environment(project):
    """Return ours, with no plugins of pytest but the one that is needed: they start sooner."""
    quick = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p pytest_timeout"}
    return {**os.environ, **quick, "PYTHONPATH": str(ROOT)}


def run(project, *options):
    """Return the exit code of a run over the project, and what it printed."""
    ended = subprocess.run(
        command(*options), cwd=project, env=environment(project), capture_output=True, text=True
    )
    assert ended.stderr == ""
    return ended.returncode, ended.stdout


def write_tests(project, **files):
    """Write test files that are one shard each, since a duration says that they are long."""
    for name, text in files.items():
        (project / "tests" / f"test_{name}.py").write_text(text)
    seconds = {f"tests/test_{name}.py": 200.0 for name in files}
    (project / "tests" / "durations.json").write_text(json.dumps(seconds))


def test_shards_that_die_fail_and_hang_are_named_and_the_others_go_on(project):
    write_tests(project, a_dying=DYING, b_failing=FAILING, c_hanging=HANGING,
                d_good="def test_good(): pass", e_unreadable="import nothing_at_all")  # fmt: skip
    code, text = run(project)
    assert code == 1
    assert text.splitlines()[-1] == "5 passed, 5 failed, 1 skipped"
    assert "the process died: SIGILL in tests/test_a_dying.py::test_trap\n" in text
    assert "the process died: exit code 1 in tests/test_c_hanging.py::test_hang\n" in text
    assert "time.sleep(60)" in text, "the stack of what hangs"
    assert "assert 1 + 1 == 3" in text.replace("(1 + 1)", "1 + 1")
    assert "OSError: the tear-down is wrong" in text
    assert "No module named 'nothing_at_all'" in text
    lines = [line for line in text.splitlines() if line.startswith(("ok ", "FAILED shard"))]
    assert [(line.split()[0], line.split(": ")[1].split(" in ")[0]) for line in sorted(lines)] == [
        ("FAILED", "2 passed, 1 failed, 0 skipped"),
        ("FAILED", "1 passed, 2 failed, 1 skipped"),
        ("FAILED", "1 passed, 1 failed, 0 skipped"),
        ("FAILED", "0 passed, 1 failed, 0 skipped"),
        ("ok", "1 passed, 0 failed, 0 skipped"),
    ]


def test_a_good_run_prints_no_more_than_its_counts_and_can_record_its_durations(project):
    write_tests(project, gone="", long=BUSY)
    (project / "tests" / "test_gone.py").unlink()
    (project / "tests" / "test_new.py").write_text("def test_it(): pass")
    code, text = run(project, "--record", "--slowest=1", "--beside", "echo never shown")
    assert code == 0
    *lines, cpu, counts, slowest = text.splitlines()
    assert [line.split(":")[0] for line in sorted(lines)] == [
        "ok     echo never shown",
        "ok     shard 1 of 2, tests/test_long.py to tests/test_long.py",
        "ok     shard 2 of 2, tests/test_new.py to tests/test_new.py",
    ]
    assert re.fullmatch("[0-9]:[0-5][0-9] minutes, 0:[0-5][0-9] minutes of CPU", cpu)
    assert counts == "2 passed, 0 failed, 0 skipped"
    assert slowest.split()[2:] == ["tests/test_long.py::test_it"]
    seconds = json.loads((project / "tests" / "durations.json").read_text())
    assert sorted(seconds) == ["tests/test_long.py", "tests/test_new.py"]
    assert 0.3 <= seconds["tests/test_long.py"] < 60


def test_a_command_beside_the_tests_asked_for_that_fails_fails_the_run_and_is_shown(project):
    write_tests(project, one="def test_it(): pass", two="def test_it(): assert False")
    failing = "sh -c 'echo 3 lines are too long; exit 2'"
    code, text = run(project, "tests/test_one.py", "--beside", failing)
    assert code == 1
    assert "\n3 lines are too long\n" in text
    assert text.splitlines()[-1] == "1 passed, 0 failed, 0 skipped"


def test_ctrl_c_ends_every_shard_and_leaves_nothing(project, start_process):
    waiting = (
        "import subprocess\nfrom pathlib import Path\n\n"
        "def test_wait():\n"
        "    child = subprocess.Popen(['sleep', '60'])\n"
        "    Path('%s').write_text(str(child.pid))\n"
        "    child.wait()\n"
    )
    write_tests(project, a=waiting % "pid_a", b=waiting % "pid_b", c="def test_it(): pass")
    runner = start_process(
        command(), cwd=project, env=environment(project), stdout=subprocess.PIPE, text=True
    )
    files, deadline = [project / "pid_a", project / "pid_b"], time.monotonic() + 120
    while not all(file.exists() and file.read_text() for file in files):
        assert runner.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    runner.send_signal(signal.SIGINT)
    assert "interrupted" in runner.communicate(timeout=60)[0]
    assert runner.returncode == 130
    for file in files:
        child_id = int(file.read_text())
        assert not psutil.pid_exists(child_id) or psutil.Process(child_id).status() == "zombie"


def test_shards_are_neighbours_and_the_last_ones_are_short():
    files, seconds = [*"abcdefghij"], dict.fromkeys("abcdefghij", 60.0)
    shards = split_files(files, seconds)
    assert [file for shard in shards for file in shard] == files
    # A sixth of what is left: 100, 80 … seconds, and not less than one file or 20 seconds.
    assert shards[:2] == [["a", "b"], ["c"]]
    assert len(shards) == 9
    assert split_files(files, dict.fromkeys(files, 5.0)) == [[*"abcd"], [*"efgh"], [*"ij"]]
    assert split_files(["a", "b"], {"a": 100.0, "b": 0.0}) == [["a"], ["b"]]
    assert split_files(["a"], {"a": 0.0}) == [["a"]]
    assert split_files([*"abc"], {}) == [[*"abc"]]
