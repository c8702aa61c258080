import re

from posemill.jobs.extract.status import log_path
from posemill.machine import live_files
from posemill.machine.live_files import LogFile, follow_lines, last_lines
from posemill.runs.home import holder_of, run_lock


def read_logs(folder, worker=None, num_lines=50):
    return last_lines(log_path(folder, worker), num_lines)


def follow_log(folder):
    return follow_lines(log_path(folder), lambda: holder_of(folder) is None)


def test_lines_have_the_time_in_front_and_are_appended(tmp_path):
    (tmp_path / "logs").mkdir()
    for text in ("begun", "odd \udce9"):
        log = LogFile(log_path(tmp_path))
        log.write(text)
        log.close()
    lines = read_logs(tmp_path)
    assert [re.sub(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00 ", "", line) for line in lines] == [
        "begun",
        "odd \\udce9",
    ]


def test_only_the_last_lines_are_read_of_the_log_that_is_meant(tmp_path):
    assert read_logs(tmp_path) == []
    assert list(follow_log(tmp_path)) == []
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "coordinator.log"
    log.write_text("".join(f"{i}\n" for i in range(900)))
    (tmp_path / "logs" / "worker-3.log").write_text("mine\n")
    assert read_logs(tmp_path, num_lines=3) == ["897", "898", "899"]
    assert len(read_logs(tmp_path)) == 50
    assert read_logs(tmp_path, worker=3) == ["mine"]
    assert read_logs(tmp_path, worker=4) == []
    log.write_text("x" * 5000 + "\nlast\n")  # read from where the last ones may begin
    first, last = read_logs(tmp_path, num_lines=2)
    assert (set(first), last) == ({"x"}, "last")


def test_new_lines_come_while_somebody_works_and_then_the_rest(tmp_path, monkeypatch):
    (tmp_path / "logs").mkdir()
    path = tmp_path / "logs" / "coordinator.log"
    path.write_text("old\n")
    lock = run_lock(tmp_path)
    steps = [lambda: path.write_text("old\none\ntw"), lambda: path.write_text("old\none\ntwo\nth")]

    def wait(seconds):
        assert 0 < seconds < 5
        if steps:
            steps.pop(0)()
        else:
            lock.__exit__(None, None, None)

    monkeypatch.setattr(live_files.time, "sleep", wait)
    with lock:
        assert list(follow_log(tmp_path)) == ["one", "two", "th"]
