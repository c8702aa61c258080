"""`bench`: what is measured, what is remembered, and what `--decoder auto` makes of it."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from cli_runner import CliRunner

import posemill
from posemill.commands import progress
from posemill.commands.line import run_line
from posemill.config import ExtractConfig, FramesConfig
from posemill.decoders import choice, open_video
from posemill.errors import ConfigError, DecodeError, SourceError
from posemill.inspection import speeds
from posemill.inspection.speeds import DecodeSpeed, compare_points, measure_decoders, runtimes_of
from posemill.jobs.extract.run import extract
from posemill.jobs.frames import write_frames
from posemill.machine.trials import Outcome
from posemill.runs.manifest import Manifest
from tests.inspection.conftest import write_film


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def video(tmp_path):
    path = tmp_path / "videos" / "a.mp4"
    write_film(path, range(0, 240, 6))
    return path


def bench(*arguments):
    return CliRunner().invoke(run_line, ["bench", "decode", *map(str, arguments)])


def test_every_decoder_is_measured_in_every_way_and_the_quickest_is_remembered(video, tmp_path):
    (tmp_path / "text.mp4").write_text("no video")
    steps = []
    report = measure_decoders(
        [video, tmp_path / "text.mp4"], seconds=0.01, on_step=lambda: steps.append(1)
    )
    ready, missing = speeds.installed_decoders()
    assert len(steps) == 2 * len(ready)
    assert report.missing == missing
    assert {"pyav", "opencv"} <= set(ready)
    assert "not a video" in report.failed[str(tmp_path / "text.mp4")]
    measured = {(each.decoder, each.access): each for each in report.speeds if not each.refused}
    for access in ("all", "8", "32"):
        for name in ("pyav", "opencv"):
            speed = measured[name, access]
            assert set(speed.frames_per_second) == set(speed.ratios) == {1, 2}
            assert min(speed.frames_per_second.values()) > 0
            assert speed.is_equal
            assert speed.memory_mb > 0
        ours, theirs = measured["pyav", access], measured["opencv", access]
        assert theirs.ratios == {1: 1.0, 2: 1.0}
        rates = ours.frames_per_second[1] / theirs.frames_per_second[1]
        assert ours.ratios[1] == pytest.approx(rates)
    kept = json.loads(choice.memory_path().read_text())["kinds"]
    kind = choice.kind_of(video)
    for access, name in report.winners[kind].items():
        assert kept[kind][access] == {"decoder": name, "version": choice.version_of(name)}
        assert choice.choose([video], access).decoder == name


def test_a_process_that_dies_is_a_reason(video, monkeypatch):
    monkeypatch.setattr(speeds, "python_command", lambda *_: ["false"])
    report = measure_decoders([video], seconds=0.01)
    assert {each.refused for each in report.speeds} == {"ended with exit code 1"}
    assert report.winners == {}
    assert not choice.memory_path().exists()


def speed(decoder, rate, *, path="a", is_equal=True, refused=""):
    rates = {1: rate} if rate else {}
    return DecodeSpeed(path, "h264 small", decoder, "8", rates, {}, 1.0, is_equal, refused)


@pytest.mark.parametrize(
    ("measured", "winner"),
    [
        ([speed("pyav", 10), speed("opencv", 20)], "opencv"),
        ([speed("pyav", 10), speed("opencv", 10.9)], "pyav"),
        ([speed("pyav", 10), speed("opencv", 11.1)], "opencv"),
        ([speed("pyav", 10), speed("opencv", 20, is_equal=False)], "pyav"),
        # Once slower, once refused.
        ([speed("pyav", 10), speed("opencv", 20), speed("pyav", 10), speed("opencv", 1)], "pyav"),
        ([speed("pyav", 10), speed("opencv", 20), speed("pyav", 10),
          speed("opencv", 0, refused="no")], "pyav"),
    ],
)  # fmt: skip
def test_the_winner_is_the_quickest_of_those_that_are_right_on_all_files(measured, winner):
    assert speeds._winners(measured) == {"h264 small": {"8": winner}}
    assert speeds._winners([speed("pyav", 0, refused="no")]) == {}


def test_what_was_not_measured_or_with_another_version_or_is_damaged_does_not_count(video):
    assert choice.choose([], "8") == ("pyav", "there is no video to choose by")
    found = choice.choose([video], "8")
    assert found.decoder == "pyav"
    assert found.why.startswith("nothing was measured for ")
    kind = choice.kind_of(video)
    choice.remember({kind: {"8": "opencv"}})
    assert choice.choose([video], "8").decoder == "opencv"
    assert choice.choose([video], "32").decoder == "pyav"
    path = choice.memory_path()
    content = json.loads(path.read_text())
    content["kinds"][kind]["8"]["version"] = "0"
    for text in (json.dumps(content), "{", "[]", '{"format": 1, "kinds": 3}',
                 '{"format": 1, "kinds": {"x": 1}}'):  # fmt: skip
        path.write_text(text)
        assert choice.choose([video], "8").decoder == "pyav"


def test_a_file_that_the_quickest_refuses_leaves_all_to_pyav(video, monkeypatch):
    choice.remember({choice.kind_of(video): {"all": "opencv"}})

    def refuse(path, **options):
        raise DecodeError("it is interlaced", reason="unsupported")

    monkeypatch.setattr(choice, "open_video", refuse)
    assert choice.choose([video], "all") == ("pyav", "opencv is quicker, but it is interlaced")


def test_extractions_take_pyav_and_frames_the_quickest_record_it_and_go_on_with_it(video, tmp_path):
    kind = choice.kind_of(video)
    choice.remember({kind: {"all": "opencv"}})
    options = {"executor": "serial", "decoder": "auto"}
    extraction = ExtractConfig(video.parent, tmp_path / "run", engine="fake", **options)
    for _ in range(2):  # the second goes on
        extract(extraction)
        assert Manifest.read(tmp_path / "run").options["decoder"] == "pyav"
    config = FramesConfig(video.parent, tmp_path / "out", **options)
    notes = []
    write_frames(config, on_plan=lambda clips, _: notes.extend(clips.problems))
    assert notes == [f"decoder opencv: the quickest for {kind} by posemill bench decode"]
    assert Manifest.read(tmp_path / "out").options["decoder"] == "opencv"
    choice.remember({kind: {"all": "pyav"}})
    write_frames(config, on_plan=lambda clips, _: notes.extend(clips.problems))
    assert notes[1:] == ["decoder opencv: as the run was begun"]


def test_video_clips_take_the_quickest_and_pyav_where_it_refuses(video, monkeypatch):
    choice.remember({choice.kind_of(video): {"8": "opencv"}})
    clips = posemill.VideoClips(video.parent, size=None, decoder="auto")
    assert clips.decoder == "opencv"
    expected = posemill.VideoClips(video.parent, size=None)[0]["frames"]
    np.testing.assert_array_equal(clips[0]["frames"], expected)
    from posemill.training.video import reading

    asked = []

    def refuse_opencv(path, *, decoder, **options):
        asked.append(decoder)
        if decoder == "opencv":
            raise DecodeError("no", reason="unsupported")
        return open_video(path, decoder=decoder, **options)

    monkeypatch.setattr(reading, "open_video", refuse_opencv)
    again = posemill.VideoClips(video.parent, size=None, decoder="auto")
    np.testing.assert_array_equal(again[0]["frames"], expected)
    assert asked == ["opencv", "pyav"]


@pytest.mark.parametrize(("num_frames", "access"), [(None, "all"), (8, "8"), (16, "8"), (17, "32")])
def test_the_nearest_way_to_read_counts(num_frames, access):
    assert choice.access_of(num_frames) == access


def test_the_command_prints_a_table_or_json_and_names_what_is_wrong(video, tmp_path, monkeypatch):
    rates, sums = ({access: [value] * 2 for access in choice.ACCESSES} for value in (9.0, "x"))
    values = {"rates": rates, "sums": sums, "memory_mb": 1.0}
    monkeypatch.setattr(speeds, "measure_alone", lambda *_: (Outcome(works=True), values))
    (tmp_path / "text.mp4").write_text("no video")
    table = bench(video.parent, tmp_path / "text.mp4", "--seconds", "0.01")
    assert table.exit_code == 1
    assert "same frames" in table.stdout
    assert f"--decoder auto for {choice.kind_of(video)}: all in order " in table.stdout
    assert "text.mp4 was not measured: " in table.stderr
    plain = bench(video, "--seconds", "0.01", "--json")
    assert plain.exit_code == 0
    assert {each["access"] for each in json.loads(plain.stdout)["speeds"]} == {"all", "8", "32"}
    assert isinstance(bench(tmp_path / "nowhere.mp4").exception, SourceError)
    with pytest.raises(SourceError, match="cannot be read: No such file or directory"):
        posemill.bench_decode(Path("nowhere.mp4"))
    with pytest.raises(ConfigError, match="seconds: expected more than 0, got 0"):
        posemill.bench_decode(video, seconds=0)


def test_installed_runtimes_are_measured_beside_the_default(tmp_path, monkeypatch, capsys):
    for package in ("onnx", "onnxruntime", "openvino"):
        pytest.importorskip(package)
    from benchmarks.shared.pose_networks import make_pictures, write_pose

    for index, picture in enumerate(make_pictures([(60, 90), (40, 30)])):
        cv2.imwrite(str(tmp_path / f"{index}.png"), picture)
    pose = str(write_pose(tmp_path / "pose.onnx", 17))
    monkeypatch.setitem(progress._SECONDS, "log", 0.0)
    usual, other = posemill.bench_engine(
        tmp_path, engine="wholebody", engine_options={"pose": pose}, rounds=1, progress=True
    )
    total = len(runtimes_of("wholebody"))
    assert f"{total} / {total}" in capsys.readouterr().err.splitlines()[-1]
    assert usual.is_default
    assert not other.is_default
    assert [speed.runtime.split()[0] for speed in (usual, other)] == ["onnxruntime", "openvino"]
    assert usual.refused == other.refused == ""
    assert other.agreement == 1
    assert other.largest_pixels < 1
    made_up = {"runtime": "x", "milliseconds": 9.96, "memory_mb": 4.6, "agreement": 0.5}
    found = [speeds.RuntimeSpeed(is_default=is_usual, **made_up) for is_usual in (True, False)]
    found.append(speeds.RuntimeSpeed("y", is_default=False, refused="no"))
    monkeypatch.setattr(speeds, "measure_runtimes", lambda *_, **__: found)
    said = CliRunner().invoke(run_line, ["bench", "engine", str(tmp_path)])
    rows = [line.split() for line in said.stdout.splitlines() if "10.0" in line]
    numbers = ["10.0", "5", "0.5000", "0.0000", "0.000"]
    assert rows == [["x", "yes", *numbers], ["x", *numbers]]
    assert "y failed here: no" in said.output
    assert min(usual.milliseconds, usual.memory_mb) > 0


def test_runtimes_are_compared_with_the_first_that_works(monkeypatch):
    pixels = {"auto": [[[0.0, 0.0]]], "onnxruntime": [[[3.0, 4.0]]], "openvino": [[[0.0, 2.0]]]}

    def measure(function, task):
        name = task["options"]["runtime"]
        speed = {"runtime": "litert 2" if name == "auto" else f"{name} 1"}
        return Outcome(works=True), {"speed": speed, "pixels": pixels[name]}

    monkeypatch.setattr(speeds, "read_frames", lambda *_: [])
    monkeypatch.setattr(speeds, "runtimes_of", lambda _: ["auto", "litert", *list(pixels)[1:]])
    monkeypatch.setattr(speeds, "measure_alone", measure)
    found = speeds.measure_runtimes(Path("x"))
    assert [(speed.runtime, speed.is_default, speed.median_pixels) for speed in found] == [
        ("litert 2", True, 0), ("onnxruntime 1", False, 5), ("openvino 1", False, 2),
    ]  # fmt: skip


def test_distances_are_those_of_points_that_both_found():
    default = np.zeros((1, 4, 2))
    points = default.copy()
    points[0, 1, 0] = 2
    points[0, 2] = np.nan
    distances = compare_points(points.tolist(), default.tolist())
    assert distances["agreement"] == 0.75
    assert distances["median_pixels"] == 0
    assert distances["largest_pixels"] == 2


def test_an_engine_without_a_choice_and_a_missing_source_are_refused():
    with pytest.raises(ConfigError):
        runtimes_of("fake")
    with pytest.raises(SourceError):
        posemill.bench_engine("nowhere", progress=False)
