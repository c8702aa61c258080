import json
import re
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import pytest
from cli_runner import call

import posemill
from posemill.config import ExtractConfig
from posemill.errors import ConfigError, RunError
from posemill.jobs.extract.status import read_status
from posemill.jobs.forecast import Forecast
from posemill.provenance import read_toml
from posemill.runs.reader import open_run
from posemill.testing.videos import write_video

FAKE = ["--engine", "fake", "--executor", "serial"]


ran = partial(call, catches=False)


def test_counts_come_first_and_add_up_at_the_end(tree, tmp_path):
    result = ran("extract", tree, "--out", tmp_path / "run", *FAKE)
    assert result.exit_code == 0
    assert "train: 2 clips, 10 frames" in result.stderr
    assert "plan: 1 process (serial) x 1 thread on cpu" in result.stderr
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["train", "2", "2", "0", "10", "10", "0"] in rows
    assert ["dev", "1", "1", "0", "5", "5", "0"] in rows
    assert "no effect" not in result.stderr
    words = ("--num-workers-per-gpu", "4")
    result = ran("extract", tree, "--out", tmp_path / "run", *FAKE, *words)
    assert result.exit_code == 0
    said = "note: --num-workers-per-gpu 4 has no effect: --num-gpus is 0; --workers counts"
    assert said in result.stderr


def test_failures_end_with_code_1_and_a_table_of_reasons(tree, tmp_path):
    (tree / "dev" / "c" / "2.png").write_bytes(b"x")
    (tree / "dev" / "c" / "3.png").write_bytes(b"")
    result = ran("extract", tree, "--out", tmp_path / "run", *FAKE)
    assert result.exit_code == 1
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["empty", "file", "1", "1"] in rows
    assert ["not", "an", "image", "1", "1"] in rows
    assert "try them again: --retry-failed" in result.stdout
    result = ran("status", str(tmp_path / "run"), "--failures")
    assert "dev/c frame 3: " in result.stdout
    assert "3.png': empty file: it has 0 bytes" in result.stdout
    assert result.exit_code == 0
    assert "finished at" in result.stdout
    assert "15/15 frames (100.0%)" in result.stdout
    (tree / "dev" / "c" / "2.png").write_bytes((tree / "dev" / "c" / "1.png").read_bytes())
    again = ran("extract", tree, "--out", tmp_path / "run", *FAKE, "--retry-failed")
    assert again.exit_code == 1
    assert read_status(tmp_path / "run").frames_failed == 1


def test_a_dry_run_has_json_for_scripts_and_refuses_what_the_run_itself_would(tree, tmp_path):
    arguments = ["extract", tree, "--out", tmp_path / "run", *FAKE]
    found = json.loads(ran(*arguments, "--dry-run", "--json").stdout)
    assert (found["out"], found["continues"]) == (str(tmp_path / "run"), False)
    assert found["splits"]["train"]["num_frames"] == 10
    assert not (tmp_path / "run").exists()
    assert ran(*arguments).exit_code == 0
    assert "would continue the run in" in ran(*arguments, "--dry-run").stdout
    for more in (["--skeleton", "143"], ["--resize", "16"]):
        with pytest.raises(RunError, match="begun with other options"):
            ran(*arguments, *more, "--dry-run")


def test_videos_are_counted_before_work_starts(tmp_path):
    (tmp_path / "videos").mkdir()
    write_video(tmp_path / "videos" / "a.mkv", 7, codec="mpeg4")
    (tmp_path / "videos" / "b.mp4").write_bytes(b"junk")
    for more in (["--dry-run"], []):
        result = ran(
            "extract", str(tmp_path / "videos"), "--out", str(tmp_path / "run"), *FAKE, *more
        )
        assert "all: 2 clips, 7 frames and 1 video of unknown length" in result.stderr
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        ("extract", ConfigError, "source is missing; see posemill extract --help"),
        ("extract x", ConfigError, "^out is missing; see posemill extract --help"),
        ("extract x --dataset-path y --out z", ConfigError, "SOURCE and --dataset-path say"),
        ("extract . --out run --engine x --detach", RunError, "start: .*unknown engine 'x'"),
        ("status .", RunError, "is not a posemill run"),
        ("logs .", RunError, "is not a posemill run"),
        ("stop .", RunError, "is not a posemill run"),
    ],
)
def test_what_is_missing_or_is_no_run_is_said(words, error, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=said):
        ran(*words.split())


def test_a_detached_run_survives_and_is_watched_and_stopped(tree, tmp_path):
    out = str(tmp_path / "run")
    started = subprocess.run(
        [sys.executable, "-m", "posemill", "extract", str(tree), "--out", out, "--engine", "fake",
         "--workers", "1", "--engine-option", "seconds_per_frame=0.5", "--detach"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "works on" in started.stderr
    status = read_status(Path(out))
    assert status.state == "running"
    assert f"pid {status.holder.pid} " in started.stderr
    with pytest.raises(RunError, match="is being worked on by pid"):
        ran("extract", str(tree), "--out", out, "--engine", "fake")
    deadline = time.monotonic() + 60
    while not read_status(Path(out)).frames_done:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    stopped = ran("stop", out)
    assert "stopped" in stopped.stdout
    assert read_status(Path(out)).state == "stopped"
    assert "nobody works on it" in ran("stop", out).stdout
    assert json.loads(ran("stop", out, "--json").stdout) == {"run": out, "stopped_pid": None}
    assert "start: pid" in ran("logs", out).stdout
    lines = json.loads(ran("logs", out, "--json", "-n", "1").stdout)
    assert lines == ran("logs", out, "-n", "1").stdout.splitlines()
    ran("logs", out, "--worker", "0")
    with pytest.raises(RunError, match=r"has no log of worker 7; its logs: .*worker-0\.log$"):
        ran("logs", out, "--worker", "7")
    with pytest.raises(ConfigError, match="json is one value, follow has no end"):
        ran("logs", out, "--json", "--follow")
    assert ran("extract", str(tree), "--out", out, *FAKE).exit_code == 0
    assert json.loads(ran("status", out, "--json", "--watch").stdout)["state"] == "finished"


def test_a_forecast_is_in_proportion_to_what_was_measured(monkeypatch):
    found = Forecast(10, 36_000, 500, {1: 10.0, 2: 19.0}, 5000.0, 4)
    monkeypatch.setattr("posemill.jobs.forecast.forecast", lambda *_, **__: found)
    rows = [line.split() for line in ran("plan", "anything").stdout.splitlines()]
    found = json.loads(ran("plan", "anything", "--json").stdout)
    assert [row["workers"] for row in found["forecast"]][:4] == [1, 2, 4, 8]
    assert "10 clips, 36000 frames".split() in rows
    assert ["1", "1.0", "1:00:00", "0.18", "10.0", "measured"] in rows
    assert ["4", "0.26", "0:15:47", "0.18", "38.0", "in", "proportion"] in rows
    assert "8 0.13 0:07:54 0.18 76.0 in proportion; this machine has 4 cores".split() in rows


def test_a_config_becomes_the_command_line_that_means_it(tmp_path):
    config = ExtractConfig(
        tmp_path, tmp_path / "run", splits=("a", "b"), skeleton=143, split_long_seconds=5.0,
        engine_options={"x": 1.5, "y": "z"}, retry_failed=True, workers=2,
    )  # fmt: skip
    shown = ran("extract", *config.to_arguments(), "--show-config", "--json")
    values = {row["name"]: row["value"] for row in json.loads(shown.stdout)}
    left = {"memory_limit_mb": None, "batch_size": None}
    assert ExtractConfig(**values | left) == config


def test_show_config_of_an_extraction_says_where_each_value_came_from(tmp_path):
    file = tmp_path / "c.toml"
    file.write_text('source = "videos"\nsplits = "train"\nskeleton = 143\ntask_frames = 64\n')
    words = ["extract", "--config", file, "--out", "run", "--task_frames", "32", "--show-config"]
    text = ran(*words).stdout
    lines = [line.split("  ")[0] for line in text.splitlines()]
    for line in ('source = "videos"', 'splits = ["train"]', 'skeleton = "holistic-143"'):
        assert line in lines
    rows = json.loads(ran(*words, "--json").stdout)
    sources = {row["name"]: row["source"] for row in rows}
    assert (sources["source"], sources["out"], sources["mode"]) == ("file", "flag", "default")
    assert sources["task_frames"] == "flag"
    assert sources["workers"] == "machine: cores this process may use"
    assert sources["batch_size"] == "machine: usual on a CPU"
    assert sources["memory_limit_mb"].startswith("machine: ")
    lines = [line.split() for line in ran("extract", "--show-config").stdout.splitlines()]
    assert ["source", "=", '"SOURCE"', "#", "to", "be", "given"] in lines
    (tmp_path / "again.toml").write_text(text)
    assert ExtractConfig(**read_toml(ExtractConfig, tmp_path / "again.toml")).task_frames == 32


def test_an_output_path_that_is_a_file_is_exported_and_the_run_stands_beside_it(tree, tmp_path):
    out = tmp_path / "keypoints.pkl"
    words = ("extract", tree, "--output_path", out, *FAKE)
    result = ran(*words)
    assert result.exit_code == 0, result.output
    assert out.is_file()
    run = tmp_path / "keypoints.run"
    assert f"{out} written; the run, which the same command continues, is {run}" in result.stderr
    assert read_status(run).state == "finished"
    assert posemill.status(out).state == "finished"
    assert posemill.export(run, out=tmp_path / "points.csv").format_name == "csv"
    with pytest.raises(ConfigError, match="out: expected the file or the folder to write, got"):
        posemill.export(run, "csv")
    assert "finished at" in ran("status", str(out)).stdout
    assert "start: pid" in ran("logs", str(out)).stdout
    assert f"would continue the run in {run}" in ran(*words, "--dry-run").stdout
    run.rename(tmp_path / "away")
    with pytest.raises(RunError, match=r"is a file, and there is no run beside it .*posemill view"):
        ran("status", str(out))


def test_its_own_output_inside_the_source_is_not_taken_for_data(tree, monkeypatch):
    monkeypatch.chdir(tree)
    first = ran("extract", ".", "--out", "run1", *FAKE, "--json")
    assert first.exit_code == 0, first.output
    for words in (
        ["visualize", "run1", "--out", "pictures", "--num-samples", "1"],
        ["export", "run1", "--to", "txt", "--out", "texts"],
    ):
        assert ran(*words).exit_code == 0
    assert list(Path("pictures").rglob("*.png"))
    Path("empty").mkdir()
    for out in ("empty", "."):  # among the folders of the splits, too
        assert ran("visualize", "run1", "--out", out, "--num-samples", "1").exit_code == 0
    again = ran("extract", ".", "--out", "run2", *FAKE, "--json")
    assert json.loads(again.stdout)["splits"] == json.loads(first.stdout)["splits"]
    for name in ("run1", "pictures", "empty/train", "texts"):
        assert f"{name}' was written by posemill; left out" in again.stderr
    same = ran("extract", ".", "--out", "run1", *FAKE, "--json")
    assert same.exit_code == 0, same.output


def test_the_last_words_say_what_was_found_in_which_mode_and_how_fast(tree, tmp_path):
    # To the fake engine nobody is in a black picture.
    black = np.zeros((8, 8, 3), np.uint8)
    for index in range(3):
        assert cv2.imwrite(str(tree / "dev" / "c" / f"{index}.png"), black)
    command = ("extract", tree, "--out", tmp_path / "run", *FAKE, "--mode", "image")
    said = ran(*command).stderr
    shares = "pose 80.0%, face 80.0%, left hand 80.0%, right hand 80.0%"
    assert re.search(rf"found in 15 frames: {shares}; mode image; [0-9.]+ frames/s\n", said)
    assert "nothing was found" not in said
    again = ran(*command)
    assert f"{shares}; mode image; nothing was left to do\n" in again.stderr
    found = json.loads(ran(*command, "--json").stdout)
    assert found["found"]["pose"] == 0.8
    assert found["frames_per_second"] is None


def test_a_run_in_which_nothing_was_found_is_warned_of(tree, tmp_path):
    for path in tree.rglob("*.png"):
        assert cv2.imwrite(str(path), np.zeros((8, 8, 3), np.uint8))
    result = ran("extract", tree, "--out", tmp_path / "run", *FAKE)
    assert result.exit_code == 0
    assert "note: nothing was found in any frame: is a person in the pictures" in result.stderr
    for path in tree.rglob("*.png"):
        path.write_bytes(b"no picture")
    failed = ran("extract", tree, "--out", tmp_path / "other.pkl", *FAKE)
    assert failed.exit_code == 1
    assert f"no frames, so no {tmp_path / 'other.pkl'}; the run, which" in failed.stderr
    assert "found in" not in failed.stderr


def test_resized_pictures_give_the_keypoints_of_pictures_that_were_resized_before(tree, tmp_path):
    small = tmp_path / "small"
    for path in sorted(tree.rglob("*.png")):
        place = small / path.relative_to(tree)
        place.parent.mkdir(parents=True, exist_ok=True)
        resized = cv2.resize(cv2.imread(str(path)), (96, 80), interpolation=cv2.INTER_LINEAR)
        assert cv2.imwrite(str(place), resized)
    run, before = str(tmp_path / "run"), str(tmp_path / "before")
    options = [*FAKE, "--mode", "image"]
    assert ran("extract", tree, "--out", run, *options, "--resize", "96x80").exit_code == 0
    assert ran("extract", small, "--out", before, *options).exit_code == 0
    one, other = open_run(run).to_numpy(), open_run(before).to_numpy()
    assert (one["sizes_wh"] == (96, 80)).all()
    np.testing.assert_array_equal(one["points"], other["points"])
    manifest = open_run(run).manifest
    assert manifest.options["resize"] == manifest.extraction["resize"] == "96x80"
    assert "resize" not in open_run(before).manifest.extraction


@pytest.mark.parametrize(
    ("flags", "said", "num_frames"),
    [(["--stride", "2"], "fewer frames: 1 of every 2", 10),
     (["--fps", "12.5"], "fewer frames: 12.5 of every second", 10)],
)  # fmt: skip
def test_fewer_frames_are_said_counted_and_never_asked_of_pictures(
    flags, said, num_frames, tree, tmp_path
):
    (tmp_path / "videos").mkdir()
    write_video(tmp_path / "videos" / "a.mkv", 20, codec="mpeg4")
    command = ["extract", str(tmp_path / "videos"), "--out", str(tmp_path / "run"), *FAKE, *flags]
    dry = ran(*command, "--dry-run", "--json")
    assert json.loads(dry.stdout)["splits"]["all"]["num_frames"] == num_frames
    assert said in dry.stderr
    made = ran(*command, "--json")
    assert made.exit_code == 0
    assert said in made.stderr
    assert json.loads(made.stdout)["splits"][0]["frames_out"] == num_frames
    if "--fps" in flags:
        for more in (["--dry-run"], []):
            with pytest.raises(ConfigError, match="fps needs videos"):
                ran("extract", tree, "--out", tmp_path / "o", *FAKE, *flags, *more)


@pytest.mark.parametrize("kind", [str, Path])
def test_extract_takes_the_flags_as_keywords_or_a_config(tree, tmp_path, kind, capsys):
    seen = []
    result = posemill.extract(
        kind(tree), out=kind(tmp_path / "run"), engine="fake", workers=2, executor="threads",
        on_progress=seen.append,
    )  # fmt: skip
    assert seen
    assert (result.num_clips, result.num_frames) == (3, 15)
    assert (result.clips_failed, result.frames_failed, result.reasons) == (0, 0, ())
    assert repr(result) == f"Summary({str(tmp_path / 'run')!r}, 3 clips, 15 frames, 0 failed)"
    assert isinstance(result.run, posemill.Run)
    assert len(result.run["a"]) == 6
    found = posemill.status(kind(tmp_path / "run"))
    assert repr(found) == f"Status({str(tmp_path / 'run')!r}, finished, 15/15 frames, 0 failed)"
    config = posemill.ExtractConfig(tree, tmp_path / "run", engine="fake", executor="serial")
    assert posemill.extract(config).num_frames_now == 0
    assert capsys.readouterr() == ("", "")  # nobody watches
    with pytest.raises(ConfigError, match="ExtractConfig says everything; out, workers came"):
        posemill.extract(config, "elsewhere", workers=2)


def test_progress_can_be_asked_for_in_a_log(tree, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("posemill.commands.progress._SECONDS", {"log": 0.0})
    posemill.extract(tree, tmp_path / "run", engine="fake", executor="serial", progress=True)
    assert "/15 frames" in capsys.readouterr().err
