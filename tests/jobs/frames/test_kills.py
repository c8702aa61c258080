"""Killed at any moment, the frames end byte for byte as those of an unbroken run."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from contextlib import suppress

import psutil
import pytest

from posemill.config import FramesConfig
from posemill.jobs.frames.run import write_frames

# Imports everything once, forks a coordinator for each line it reads and kills it after as many
# seconds.
FORKER = """
import os, sys, time
from pathlib import Path
from posemill.config import FramesConfig
from posemill.jobs.frames import keeping
from posemill.jobs.frames.run import write_frames
config = FramesConfig(Path(sys.argv[1]), Path(sys.argv[2]), executor="serial", task_frames=8,
                      pack=sys.argv[3] == "True", size="40x30")
write = keeping._Keeper.keep
def slowly(*args):
    time.sleep(0.0005)
    write(*args)
keeping._Keeper.keep = slowly
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        os.close(0)
        os._exit(write_frames(config).exit_code)
    time.sleep(float(line))
    os.kill(pid, 9)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@pytest.fixture
def videos(tmp_path, write_video):
    root = tmp_path / "videos"
    for number, (name, length) in enumerate({"train/a": 70, "train/b": 5, "dev/c": 40}.items()):
        write_video(root / f"{name}.mp4", length, seed=number)
    (root / "dev" / "text.mp4").write_text("no video")
    return root


def content_of(folder):
    """Every file of pixels, and the index, with its bytes."""
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.suffix in (".jpg", ".rgb", ".csv")
    }


@pytest.mark.parametrize("pack", [False, True])
def test_a_coordinator_killed_at_many_moments_ends_as_an_unbroken_one(videos, tmp_path, pack):
    whole = tmp_path / "whole"
    write_frames(FramesConfig(videos, whole, executor="serial", pack=pack, size="40x30"))
    rng, kills, code = random.Random(5), 0, -1
    with subprocess.Popen(
        [sys.executable, "-c", FORKER, str(videos), str(tmp_path / "cut"), str(pack)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as forker:  # fmt: skip
        assert forker.stdin is not None
        assert forker.stdout is not None
        while code < 0:
            # Longer and longer: on a busy machine a start alone can take seconds.
            forker.stdin.write(f"{rng.uniform(0, 0.1 if kills < 15 else 0.05 * kills)}\n")
            forker.stdin.flush()
            code = int(forker.stdout.readline())
            kills += 1
    assert code == 1  # one file is no video
    assert kills > 4
    assert content_of(tmp_path / "cut") == content_of(whole)
    assert len(content_of(whole)) == (3 if pack else 116)


def test_workers_killed_at_random_moments_are_replaced(videos, tmp_path):
    whole = FramesConfig(videos, tmp_path / "whole", executor="serial")
    write_frames(whole)
    rng, kills, is_over = random.Random(7), [], threading.Event()

    def kill_workers() -> None:
        while not is_over.wait(rng.uniform(0.02, 0.3)) and len(kills) < 4:
            with suppress(psutil.NoSuchProcess):  # one that ended while it was looked at
                workers = [
                    each for each in psutil.Process().children()
                    if "resource_tracker" not in " ".join(each.cmdline())
                ]  # fmt: skip
                if workers:
                    chosen = rng.choice(workers)
                    chosen.kill()
                    kills.append(chosen.pid)

    killer = threading.Thread(target=kill_workers)
    killer.start()
    try:
        write_frames(
            whole.replace(out=tmp_path / "cut", executor="processes", workers=2, task_frames=8)
        )
    finally:
        is_over.set()
        killer.join()
    assert kills
    assert content_of(tmp_path / "cut") == content_of(tmp_path / "whole")
