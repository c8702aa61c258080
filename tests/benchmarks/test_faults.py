"""`timeout -s TERM`, as schedulers end a job: to the process, and to its group."""

import shutil
import signal
import subprocess
import sys

import pytest

import posemill
from benchmarks.datasets.faults import SHOWING, make_frames, rows_of
from posemill.jobs.extract.status import read_status


@pytest.mark.skipif(shutil.which("timeout") is None, reason="needs the program `timeout`")
def test_every_frame_shown_as_done_is_there_after_timeout_ended_the_group(tmp_path):
    source, script, out = make_frames(tmp_path / "frames"), tmp_path / "show.py", tmp_path / "cut"
    script.write_text(SHOWING)
    command = ["timeout", "-s", "TERM", "600", sys.executable, str(script), str(source), str(out)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as job:
        shown = next(number for number in map(int, job.stdout) if number)
        job.send_signal(signal.SIGTERM)  # `timeout` hands it on to the whole group
        shown = max([shown, *map(int, job.stdout)])
    assert shown <= read_status(out).frames_done < 148
    options = {"engine": "fake", "executor": "serial", "progress": False}
    slow = {"seconds_per_frame": 0.04}  # as the script has it: a run keeps its options
    cut = posemill.extract(source, out, engine_options=slow, **options)
    whole = posemill.extract(source, tmp_path / "whole", **options)
    assert rows_of(cut.run) == rows_of(whole.run)
