import json
import os
import subprocess
import sys

import pytest

from posemill.errors import ConfigError
from posemill.machine import limited_child
from posemill.machine.limited_child import Share, divide_machine


def test_more_jobs_than_cores_are_refused():
    with pytest.raises(ConfigError, match=r"workers: expected 1 to \d+ on this machine"):
        divide_machine(10_000)


def test_a_quota_of_a_container_is_shared_in_threads_not_in_cores(monkeypatch):
    monkeypatch.setattr(limited_child, "count_cores", lambda: 3)
    monkeypatch.setattr(limited_child, "free_memory", lambda: 1000)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert divide_machine(2) == [Share((0, 2, 4, 6), 2, 450), Share((1, 3, 5, 7), 1, 450)]


CHILD = [sys.executable, "-m", "posemill.machine.limited_child"]
SHOW = (
    "import json, os, resource, sys\n"
    "print(json.dumps([os.getpid(), sorted(os.sched_getaffinity(0)),\n"
    "                  resource.getrlimit(resource.RLIMIT_DATA)[0], sys.argv[1:]]))"
)


@pytest.mark.skipif(sys.platform != "linux", reason="cores and memory are limited on Linux")
def test_the_command_takes_the_place_of_the_child_with_its_share():
    core = min(os.sched_getaffinity(0))
    command = [*CHILD, str(os.getpid()), str(core), str(1 << 40), sys.executable, "-c", SHOW]
    process = subprocess.Popen([*command, "a", "b c"], stdout=subprocess.PIPE)
    out, _ = process.communicate(timeout=60)
    assert json.loads(out) == [process.pid, [core], 1 << 40, ["a", "b c"]]
    assert process.returncode == 0


def test_a_training_whose_sweep_is_gone_does_not_begin():
    # Our own process id would be right; 1 is the parent of what was left alone.
    command = [*CHILD, "1", "", str(1 << 40), sys.executable, "-c", "print('trained')"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "the sweep has ended before this training began" in done.stderr
    assert "trained" not in done.stdout
