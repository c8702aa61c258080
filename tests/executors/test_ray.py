"""Tasks on a Ray cluster of this machine: the same contract, and what only machines can do."""

import os
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from posemill.errors import RunError
from posemill.executors import Died, Finished, Limits, Output, find_executor
from posemill.files import cache_folder
from posemill.testing import ExecutorContract

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """One cluster for all, whose machines find the task functions; it takes seconds to start."""
    from posemill.executors.ray_cluster import connected

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        with connected("", 2):
            yield


class TestRay(ExecutorContract):
    name = "ray"


def run_all(functions, names, limits=None, num_workers=1):
    tasks = iter([(name, number) for number, name in enumerate(names)])
    executor = find_executor("ray")(num_workers, limits or Limits())
    events = executor.run(functions.make_function, lambda: next(tasks, None))
    return [event for event in events if event is not None]


def test_a_crash_is_known_as_exactly_as_on_one_machine(functions, tmp_path):
    limits = Limits(log_folder=tmp_path, must_see=tmp_path)
    events = run_all(functions, ["plain", "segfault", "plain"], limits)
    assert [event for event in events if isinstance(event, Died)] == [
        Died(("segfault", 1), (1, 7, 0, 0), f"{socket.gethostname()}: killed by SIGSEGV", 0)
    ]
    assert [event.task[1] for event in events if isinstance(event, Finished)] == [0, 2]
    assert "Segmentation fault" in (tmp_path / "worker-0.log").read_text()


def test_an_illegal_instruction_is_blamed_on_the_machine_if_its_slot_gave_nothing(functions):
    events = run_all(functions, ["trap", "plain", "trap"])
    died = [event for event in events if isinstance(event, Died)]
    assert [event.is_refused_instruction for event in died] == [True, False]
    assert died[0].reason.values["host"] == socket.gethostname()


def test_the_end_of_a_machine_is_from_outside_and_its_slots_come_again(functions):
    tasks = [("until stopped", 0)]
    executor = find_executor("ray")(1, Limits())
    seen, hosts = [], set()
    for event in executor.run(functions.make_function, lambda: tasks.pop() if tasks else None):
        if event is None:
            continue
        seen.append(event)
        if isinstance(event, Output) and event.value == "began":
            for process in psutil.process_iter(["cmdline"]):
                if "ray::_RemoteSlot" in " ".join(process.info["cmdline"] or ()):
                    hosts.add(process.pid)
                    process.send_signal(signal.SIGKILL)
        if isinstance(event, Died):
            tasks.append(("plain", 1))
    died = [event for event in seen if isinstance(event, Died)]
    assert hosts
    assert [(each.task, each.is_from_outside) for each in died] == [(("until stopped", 0), True)]
    assert seen[-1] == Finished(("plain", 1))


def test_a_machine_that_does_not_see_the_run_is_refused(functions, tmp_path):
    with pytest.raises(RunError, match=r"does not see .*nowhere: with several machines the run"):
        run_all(functions, ["plain"], Limits(must_see=tmp_path / "nowhere"))


def test_files_are_brought_to_a_machine_that_has_them_not(functions, tmp_path, monkeypatch):
    (tmp_path / "weights").write_bytes(b"w")
    run_all(functions, ["plain"], Limits(files={"test_ray/w.bin": tmp_path / "weights"}))
    brought = cache_folder() / "test_ray" / "w.bin"
    assert brought.read_bytes() == b"w"
    brought.unlink()
    brought.parent.rmdir()


def test_a_cluster_of_one_machine_listens_to_that_machine_alone(cluster):
    listening = set()
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            listening |= {
                connection.laddr.ip
                for connection in process.net_connections("tcp")
                if connection.status == psutil.CONN_LISTEN
            }
    assert listening
    assert listening <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def test_what_a_cluster_has_is_told(cluster):
    from posemill.executors.ray_cluster import about_cluster

    about = about_cluster("auto")
    assert (about["machines"], about["cpus"], about["gpus"]) == (1, 2.0, 0.0)


def test_a_cluster_that_lost_its_raylet_is_said_before_ray_ends_the_process(functions, monkeypatch):
    node = ray._private.worker._global_node
    monkeypatch.setattr(node, "dead_processes", lambda: [("raylet", None)])
    with pytest.raises(RunError) as caught:
        run_all(functions, ["plain"])
    assert caught.value.sentence.values["gone"] == "raylet"


def test_a_reader_that_was_busy_for_long_is_no_silence_of_the_slots(functions, monkeypatch):
    from posemill.executors import ray_cluster

    monkeypatch.setattr(ray_cluster, "_SILENT_SECONDS", 8.0)
    executor, tasks = ray_cluster.RayExecutor(2, Limits()), iter([("plain", i) for i in range(4)])
    kinds = []
    for event in executor.run(functions.make_function, lambda: next(tasks, None)):
        kinds.append(type(event))
        if kinds.count(Output) == 1 and isinstance(event, Output):
            time.sleep(10)  # as a commit to a store that does not answer
    assert Died not in kinds
    assert kinds.count(Finished) == 4
