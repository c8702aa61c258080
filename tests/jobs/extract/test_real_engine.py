import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

from posemill.config import ExtractConfig
from posemill.errors import WeightsError
from posemill.jobs.extract.run import extract
from posemill.runs.reader import open_run
from posemill.weights.pull import ensure_media


@pytest.fixture
def source(tmp_path):
    try:
        video = ensure_media("carphone")
    except WeightsError as error:
        pytest.skip(f"no video of a person: {error}")
    listing = tmp_path / "clips.csv"
    listing.write_text(
        f"path,clip_id,start_seconds,end_seconds\n{video},one,0,0.32\n{video},two,1,1.12\n"
    )
    return listing


def test_the_real_engine_killed_ends_as_an_unbroken_run(source, tmp_path, same_runs, start_process):
    # With everybody in the picture: the ids have to go on, too.
    whole = ExtractConfig(source, tmp_path / "whole", executor="serial", task_frames=500,
                          engine_options={"people": "all"})  # fmt: skip
    extract(whole)
    command = [
        sys.executable, "-m", "posemill", "extract", str(source), "--out", str(tmp_path / "cut"),
        "--workers", "1", "--task-frames", "4", "--engine-option", "people=all",
    ]  # fmt: skip
    process = start_process(command, stderr=subprocess.DEVNULL)
    _wait_for_commit(process, tmp_path / "cut")
    process.kill()
    process.wait()
    assert not open_run(tmp_path / "cut").is_finished
    assert extract(whole.replace(out=tmp_path / "cut")).exit_code == 0
    same_runs(tmp_path / "cut", tmp_path / "whole")
    for clip in open_run(tmp_path / "cut").clips():
        assert (clip.others.ids.first == 1).all()
    points = open_run(tmp_path / "cut").to_numpy()["points"]
    assert np.isfinite(points[:, :33]).all(), "somebody drives the car in every frame"


def _wait_for_commit(process, folder):
    """Return when this start of the run has written a shard."""
    before = set((folder / "shards").glob("*.parquet")) if folder.exists() else set()
    deadline = time.monotonic() + 120
    while not set((folder / "shards").glob("*.parquet")) - before:
        assert time.monotonic() < deadline
        assert psutil.pid_exists(process.pid)
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.005)
