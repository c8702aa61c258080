import json
import re
import subprocess
import sys
from functools import partial

import av
import numpy as np
import pytest
from cli_runner import call

import posemill as package
from posemill.config import FramesConfig
from posemill.errors import ConfigError, SourceError
from posemill.runs.frame_index import read_index
from posemill.testing.videos import write_video

posemill = partial(call, catches=False)


@pytest.fixture
def videos(tmp_path):
    for number, name in enumerate(("train/a", "train/b", "dev/c")):
        path = tmp_path / "videos" / f"{name}.mp4"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_video(path, 10 + number, codec="mpeg4", size_wh=(48, 32))
    return tmp_path / "videos"


SMALL = ["--resize", "16", "--short-side", "--executor", "serial"]


def test_the_command_writes_pictures_and_says_where_they_are_listed(videos, tmp_path):
    out = tmp_path / "out"
    result = posemill("frames", videos, "--out", out, *SMALL)
    assert result.exit_code == 0
    assert "train: 2 clips, 21 frames" in result.stderr
    assert re.search(r"index.csv written; 0\.\d\d MB; [\d.]+ frames/s", result.stderr)
    assert "train 2 2 0 21 21 0".split() in map(str.split, result.stdout.splitlines())
    assert [(clip.width, clip.height) for clip in read_index(out)] == [(24, 16)] * 3
    again = posemill("frames", videos, "--out", out, *SMALL)
    assert "nothing was left to do" in again.stderr


def test_what_fails_is_counted_and_the_code_is_1(videos, tmp_path):
    (videos / "dev" / "d.mp4").write_text("no video")
    with av.open(str(videos / "dev" / "song.mp4"), "w") as container:
        stream = container.add_stream("aac", rate=8000)
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 8000), np.float32), "fltp", "mono")
        sound.sample_rate = 8000
        container.mux(stream.encode(sound))
        container.mux(stream.encode())
    result = posemill("frames", videos, "--out", tmp_path / "out", *SMALL, "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert sorted(found["reasons"], key=lambda each: str(each["reason"])) == [
        {"reason": "no video stream", "failures": 1, "frames": 0},
        {"reason": "not a video", "failures": 1, "frames": 0},
    ]
    assert len(read_index(tmp_path / "out")) == 3
    assert found["index"] == str(tmp_path / "out" / "index.csv")
    assert found["num_bytes"] > 0


@pytest.mark.parametrize("more", [[], ["--pack"], ["--stride", "2"]])
def test_a_dry_run_measures_a_sample_and_writes_nothing(videos, tmp_path, more):
    out = tmp_path / "out"
    result = posemill("frames", videos, "--out", out, *SMALL, *more, "--dry-run")
    assert result.exit_code == 0
    num_frames = 17 if "--stride" in more else 33
    assert f"3 clips, {num_frames} frames" in result.stdout
    assert "nothing was written" in result.stderr
    assert not out.exists()
    command = ["frames", videos, "--out", out, *SMALL, *more, "--dry-run", "--json"]
    found = json.loads(posemill(*command).stdout)
    assert (found["num_frames"], found["num_clips"]) == (num_frames, 3)
    written = posemill("frames", videos, "--out", out, *SMALL, *more, "--json")
    # All of it was the sample: what is said is what it takes.
    num_bytes = found["bytes_per_frame"] * num_frames
    assert json.loads(written.stdout)["num_bytes"] == pytest.approx(num_bytes)


def test_wrong_usage_is_said(videos, tmp_path):
    command = ["frames", videos, "--out", tmp_path / "out"]
    with pytest.raises(ConfigError, match="SOURCE and --dataset-path say the same thing"):
        posemill(*command, "--dataset-path", videos)
    with pytest.raises(ConfigError, match=r"format: expected jpg \| png \| webp, got 'jpeg'"):
        posemill(*command, "--format", "jpeg")
    with pytest.raises(ConfigError, match="quality: expected 1 to 100, got 101"):
        posemill(*command, "--quality", "101")
    with pytest.raises(SourceError, match="nowhere' cannot be read: No such file"):
        posemill("frames", tmp_path / "nowhere", "--out", tmp_path / "out")
    assert posemill(*command, "--qualty", "50").exit_code == 2
    assert not (tmp_path / "out").exists()


def test_from_python_it_is_one_call(videos, tmp_path):
    summary = package.frames(videos, tmp_path / "out", resize=16, executor="serial", progress=False)
    assert (summary.num_frames, summary.index.name) == (33, "index.csv")
    assert repr(summary).startswith("FramesSummary(")
    config = FramesConfig(videos, tmp_path / "out", resize=16, executor="serial")
    assert package.frames(config, progress=False).num_frames_now == 0
    with pytest.raises(ConfigError, match="FramesConfig says everything; resize came beside it"):
        package.frames(config, resize=32)


def test_it_works_in_the_background_and_status_and_logs_know_it(videos, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "posemill", "frames", videos, "--out", out, *SMALL, "--detach"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "in the background" in done.stderr
    watched = posemill("status", out, "--watch", "--json")
    assert "\r" not in watched.stderr, "no terminal"
    found = json.loads(watched.stdout)
    assert (found["state"], found["frames_done"]) == ("finished", 33)
    assert "finished: 33/33 frames" in posemill("logs", out).stdout
