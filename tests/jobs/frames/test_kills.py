"""Killed at any moment, the frames end byte for byte as those of an unbroken run."""

import signal

import pytest

from posemill.config import FramesConfig
from posemill.errors import StoppedError
from posemill.jobs.frames import write_frames

SCRIPT = """
from pathlib import Path
from posemill.config import FramesConfig
from posemill.jobs import frames as frames_job
from posemill.jobs.frames import write_frames
config = FramesConfig(Path(sys.argv[1]), Path(sys.argv[2]), executor="serial", task_frames=8,
                      pack=sys.argv[3] == "True", resize="40x30")
for sink in (frames_job.PictureSink, frames_job.PackSink):
    def slowly(*args, write=sink.put):
        time.sleep(0.0005)
        return write(*args)
    sink.put = slowly
def run():
    return write_frames(config)
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
def test_a_coordinator_killed_at_many_moments_ends_as_an_unbroken_one(
    videos, tmp_path, pack, kill_until_done
):
    whole = tmp_path / "whole"
    write_frames(FramesConfig(videos, whole, executor="serial", pack=pack, resize="40x30"))
    kills, code = kill_until_done(SCRIPT, videos, tmp_path / "cut", pack, seconds=0.1, quick=6)
    assert code == 1  # one file is no video
    assert kills > 3
    assert content_of(tmp_path / "cut") == content_of(whole)
    assert len(content_of(whole)) == (3 if pack else 116)


def test_workers_killed_at_random_moments_are_replaced(videos, tmp_path, killing_workers):
    whole = FramesConfig(videos, tmp_path / "whole", executor="serial")
    write_frames(whole)
    with killing_workers(least=0.02, most=0.3, count=2) as kills:
        write_frames(
            whole.replace(out=tmp_path / "cut", executor="processes", workers=2, task_frames=8)
        )
    assert kills
    assert content_of(tmp_path / "cut") == content_of(tmp_path / "whole")


def test_ctrl_c_stops_it_and_the_same_command_continues(videos, tmp_path):
    whole = FramesConfig(videos, tmp_path / "whole", executor="serial", task_frames=8)
    write_frames(whole)
    cut, seen = whole.replace(out=tmp_path / "cut"), []

    def interrupt(snapshot):
        if snapshot.frames_done and not seen:
            seen.append(snapshot.frames_done)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(StoppedError, match=r"stopped by signal 2.* the same command continues"):
        write_frames(cut, on_progress=interrupt)
    assert seen
    assert not (tmp_path / "cut" / "index.csv").exists()
    write_frames(cut)
    assert content_of(tmp_path / "cut") == content_of(tmp_path / "whole")
