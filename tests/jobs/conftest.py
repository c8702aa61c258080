"""Small datasets of coloured frames, and what it means that two runs are the same."""

import random
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker

import av
import cv2
import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest

from posemill.config import ExtractConfig
from posemill.runs.reader import open_run


@pytest.fixture(scope="session")
def write_tree():
    """Write a frame tree: `write_tree(root, {"train/a": 8, "dev/b": 3})`.

    The frames of a clip have one colour with noise on it, as those of a video are alike.
    """

    def write(root, sizes):
        for number, (clip, num_frames) in enumerate(sizes.items()):
            (root / clip).mkdir(parents=True, exist_ok=True)
            colour = np.random.default_rng(number).integers(20, 200, 3)
            for index in range(num_frames):
                rng = np.random.default_rng(1000 * number + index)
                picture = (rng.integers(0, 30, (12, 16, 3)) + colour).astype(np.uint8)
                assert cv2.imwrite(str(root / clip / f"{index:04d}.png"), picture)
        return root

    return write


@pytest.fixture
def make_tree(tmp_path, write_tree):
    """A frame tree of this test: `make_tree({"train/a": 8, "dev/b": 3})`."""
    return lambda sizes, name="frames": write_tree(tmp_path / name, sizes)


@pytest.fixture
def config_for(tmp_path):
    """An `ExtractConfig` with the fake engine, in this process unless told otherwise."""

    def make(source, out="run", **changes):
        options = {"engine": "fake", "executor": "serial", "workers": 2, "task_frames": 16}
        options.update(changes)
        if options["executor"] == "serial":
            del options["workers"]
        return ExtractConfig(source, tmp_path / out, **options)

    return make


@pytest.fixture
def same_runs():
    """Assert that two runs are equal row for row, and that their shards alone say the same, but
    for so many rows of clips that were done again.
    """

    def check(one, other, old_rows=0):
        first, second = open_run(one), open_run(other)
        assert first.is_finished
        assert second.is_finished
        assert first.counts == second.counts
        assert first.failures() == second.failures()
        a, b = first.table(), second.table()
        assert a.schema == b.schema
        floats = ["keypoints", "scores"]
        assert a.drop_columns(floats).equals(b.drop_columns(floats))
        x, y = first.to_numpy(), second.to_numpy()
        for name in ("points", "scores"):
            # By their bits: a NaN is not equal to itself.
            assert np.array_equal(x[name].view(np.uint32), y[name].view(np.uint32)), name
        if not (one / "shards").is_dir():
            return  # the copy of a run on a shared disk
        keys = ["split", "clip_id", "frame_index"]
        plain, order = pq.read_table(one / "shards", columns=keys), [(k, "ascending") for k in keys]
        assert len(plain) == len(b) + old_rows
        unique = plain.group_by(keys).aggregate([]).sort_by(order)
        assert unique.equals(b.select(keys).sort_by(order).cast(unique.schema))

    return check


@pytest.fixture
def write_video():
    """Write a video of frames of one colour each: `write_video(path, num_frames)`."""

    def write(path, num_frames, *, size=(32, 24), seed=0):
        path.parent.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(seed)
        with av.open(str(path), "w") as container:
            stream = container.add_stream("mpeg4", rate=25)
            stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
            for _ in range(num_frames):
                pixels = np.full((size[1], size[0], 3), rng.integers(20, 250, 3), np.uint8)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, "rgb24")))
            container.mux(stream.encode())

    return write


@pytest.fixture
def paint():
    """Write a picture of one colour: `paint(path, (blue, green, red))`."""

    def write(path, colour):
        assert cv2.imwrite(str(path), np.full((12, 16, 3), colour, np.uint8))

    return write


# Imports everything once, forks a coordinator for each line it reads and kills it after as many
# seconds, so that a kill costs milliseconds and many moments can be tried.
_FORKER = """
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        os.close(0)
        os._exit(run().exit_code)
    time.sleep(float(line))
    os.kill(pid, 9)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@pytest.fixture
def kill_until_done():
    """Kill a job at random moments until it ends: how many times, and its exit code."""

    def kill(script, *arguments, seconds, quick):
        """`script` defines `run`, and finds the arguments in `sys.argv`.

        The first kills, `quick` of them, come within so many seconds; then soon much later, as on
        a busy machine a start alone can take seconds.
        """
        rng, kills, code = random.Random(5), 0, -1
        command = [sys.executable, "-c", "import os, sys, time\n" + script + _FORKER]
        with subprocess.Popen(
            [*command, *map(str, arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as forker:  # fmt: skip
            while code < 0:
                longest = seconds * 1.4 ** max(0, kills - quick)
                forker.stdin.write(f"{rng.uniform(0, longest)}\n")
                forker.stdin.flush()
                code = int(forker.stdout.readline())
                kills += 1
        return kills, code

    return kill


@pytest.fixture
def killing_workers():
    """Kill worker processes of this one at random moments, of some age; gives their ids."""

    @contextmanager
    def kill(*, least, most, count, age=0.0):
        rng, is_over = random.Random(7), threading.Event()
        kills = []

        def work():
            while not is_over.wait(rng.uniform(least, most)) and len(kills) < count:
                workers = []
                for each in psutil.Process().children():
                    with suppress(psutil.NoSuchProcess):  # it ended, perhaps long ago
                        is_old = time.time() - each.create_time() >= age and each.pid not in kills
                        if is_old and "resource_tracker" not in " ".join(each.cmdline()):
                            workers.append(each)
                with suppress(psutil.NoSuchProcess):
                    if workers:
                        chosen = rng.choice(workers)
                        chosen.kill()
                        kills.append(chosen.pid)

        killer = threading.Thread(target=work)
        resource_tracker.ensure_running()  # one that begins has no name yet to be spared by
        killer.start()
        try:
            yield kills
        finally:
            is_over.set()
            killer.join()

    return kill
