import json
from pathlib import Path

import numpy as np
import pytest
from cli_runner import call
from made_up_people import make_person, write_run

import posemill
from posemill.commands.line import main
from posemill.inspection.drawing import lettering
from posemill.records import PoseClip
from posemill.runs.manifest import Manifest
from posemill.runs.writer import RunWriter
from tests.runs.conftest import change_ledger


@pytest.fixture
def run(tmp_path):
    """A run of three clips: in one of them the face is missing half of the time."""
    rng = np.random.default_rng(0)
    clips = []
    for split, clip_id in (("train", "a"), ("train", "[red]b\x1b[2J"), ("dev", "c")):
        points = rng.random((8, 543, 3), np.float32)
        if clip_id == "c":
            points[:4, 33:501] = np.nan
        scores = np.isfinite(points[..., 0]).astype(np.float32)
        sizes = np.full((8, 2), (320, 240), np.int32)
        clips.append(PoseClip(points, scores, sizes, clip_id=clip_id, split=split))
    return write_run(tmp_path / "run", *clips)


def invoke(*arguments):
    result = call(*arguments, catches=False)
    return result.exit_code, result.stdout, result.stderr


def test_view_shows_splits_presence_and_sample_rows(run):
    code, out, _ = invoke("view", run)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == f"{run}  run  holistic-543  finished"
    dev = next(line.split() for line in lines if line.startswith("dev"))
    assert dev == ["dev", "1", "8", "8", "320x240", "100%", "50.0%", "100%", "100%", "0", "0"]
    assert any(line.startswith("total") for line in lines)
    assert "[red]b?[2J" in out  # neither markup nor a command to the terminal


def test_view_as_json_has_the_same_numbers_for_programs(run):
    code, out, _ = invoke("view", run, "--json", "--detailed", "--splits", "dev", "train")
    result = json.loads(out)
    assert code == 0
    assert [(each["split"], each["num_frames"]) for each in result["splits"]] == [
        ("dev", 8), ("train", 16), ("all splits", 24),
    ]  # fmt: skip
    assert result["splits"][0]["presence"]["face"] == 0.5
    clip = result["clips"][0]
    assert clip["clip_id"] == "c"
    assert clip["parts"]["face"] == {
        "presence": 0.5, "longest_gap": 4, "num_jumps": 0, "jump_frames": [], "num_frozen": 0,
        "outside": 0.0,
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["run", "npz", "folder"])
def test_view_says_what_was_done_to_the_keypoints(run, tmp_path, kind):
    plain = json.loads(invoke("view", run, "--json")[1])
    assert (plain["normalized"], plain["interpolated"]) == (["none"], 0)
    path = tmp_path / "a.npz"
    options = ("--normalize", "shoulders", "--interpolate", 3)
    if kind == "folder":
        path = tmp_path / "model"
        invoke("prepare", run, *options, "--out", path)
    else:
        invoke("export", run, *options, "--to", "npz", "--out", path)
    if kind == "run":
        invoke("import", path, "--out", tmp_path / "back")
        path = tmp_path / "back"
    first = invoke("view", path)[1].splitlines()[0]
    assert "holistic-143  normalised by shoulders  gaps of up to 3 frames closed" in first
    result = json.loads(invoke("view", path, "--json")[1])
    assert (result["normalized"], result["interpolated"]) == (["shoulders"], 3)


def test_view_says_that_only_some_files_of_a_folder_are_normalised(run, tmp_path):
    for split, how in (("train", "bbox"), ("dev", "none")):
        invoke("prepare", run, "--splits", split, "--normalize", how, "--out", tmp_path / "model")
    assert "holistic-143  some normalised by bbox" in invoke("view", tmp_path / "model")[1]


def test_a_split_of_which_nothing_could_be_read_shows(run):
    change_ledger(run, "INSERT INTO splits (split, num_clips, frames_failed) VALUES ('test', 2, 9)")
    found = json.loads(invoke("view", run, "--json")[1])["splits"]
    splits = {split["split"]: split for split in found}
    assert (splits["test"]["num_frames"], splits["test"]["frames_failed"]) == (0, 9)
    assert splits["all splits"]["frames_failed"] == 9
    code, out, _ = invoke("view", run)
    assert code == 0
    row = next(line.split() for line in out.splitlines() if line.startswith("test"))
    assert row == ["test", "0", "0", "0", "unknown", "-", "-", "-", "-", "0", "9"]


def test_detailed_view_lists_clips_the_worst_first(run):
    _, out, _ = invoke("view", run, "--detailed", "--rows", 0)
    table = out[out.index("clips, worst first") :]
    assert "50.0% / 4" in table
    assert "face missing in 50%" in table


def test_visualize_writes_the_samples_of_the_chosen_splits(run, tmp_path):
    words = ("--num-samples", 3, "--splits", "train", "--out", tmp_path / "pictures")
    code, out, err = invoke("visualize", run, *words)
    assert code == 0
    paths = [Path(line) for line in out.splitlines()]
    assert len(paths) == 4
    assert all(path.is_file() and path.suffix == ".png" for path in paths)
    assert "3 of 3 original pictures could not be read, drawn on a blank canvas" in err
    assert not (tmp_path / "pictures" / "dev").exists()


def test_report_writes_one_html_file(run, tmp_path):
    code, out, _ = invoke("report", run, "--out", tmp_path / "deep" / "report.html")
    assert code == 0
    assert out.strip() == str(tmp_path / "deep" / "report.html")
    assert "<!doctype html>" in (tmp_path / "deep" / "report.html").read_text()
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["report.html"]
    _, out, _ = invoke("report", run, "--out", tmp_path / "report.html", "--json")
    found = json.loads(out)
    assert found["path"] == str(tmp_path / "report.html")
    assert found["num_originals_gone"] > 0  # this run has no pictures


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["view", "nowhere"], "nowhere: no such file or folder"),
        (["view", "RUN", "--splits", "test"], "has no split 'test'; it has train, dev"),
        (["visualize", "RUN", "--splits", "test"], "has no split 'test'; it has train, dev"),
        (["report", "RUN", "--splits", "test"], "has no split 'test'; it has train, dev"),
        (["visualize", "RUN", "--clips", "zzz"], "has no clip 'zzz'; posemill view --detailed"),
        (["visualize", "RUN", "--clips", "stop/of/a"], "'stop/of/a'; did you mean 'a'?"),
    ],
)
def test_what_cannot_be_done_is_said_with_exit_code_2(run, arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main([str(run) if each == "RUN" else each for each in arguments])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err.replace("\n", " ")


def test_visualize_says_what_to_do_where_no_font_has_the_letters_of_a_name(tmp_path, monkeypatch):
    monkeypatch.delenv("POSEMILL_FONT", raising=False)
    monkeypatch.setattr(lettering, "system_fonts", lambda: ())
    lettering._fonts.cache_clear()
    run = write_run(tmp_path / "run", *(make_person(2, clip_id=name) for name in ("你好", "再见")))
    code, out, err = invoke("visualize", run, "--out", tmp_path / "pictures")
    lettering._fonts.cache_clear()
    assert code == 0
    assert "你好_frame000000.png" in out
    assert "no font of this machine has the letters of" in err
    assert "install a font that has them" in err


@pytest.fixture
def tall_run(tmp_path):
    """A run of tall pictures in which a hand jumps sideways."""
    points = np.tile(np.float32([0.5, 0.5, 0]), (40, 543, 1))
    points[:, :33, 0] += np.linspace(-0.2, 0.2, 33, dtype=np.float32)
    points[20, 501:522, 0] += 0.12
    clip = PoseClip(points, np.ones((40, 543), np.float32), np.full((40, 2), (210, 540), np.int32),
                    clip_id="a", split="train")  # fmt: skip
    return write_run(tmp_path / "tall", clip)


def test_a_file_without_sizes_says_that_its_jumps_are_not_those_of_the_run(tall_run, tmp_path):
    posemill.export(tall_run, out=tmp_path / "elsewhere.pkl", progress=False)
    options = {"detailed": True, "progress": False}
    run, file = (posemill.view(path, **options) for path in (tall_run, tmp_path / "elsewhere.pkl"))
    sized = posemill.view(tmp_path / "elsewhere.pkl", size=(210, 540), **options)
    assert (run["notes"], sized["notes"]) == ([], [])
    assert sized["clips"][0]["num_jumps"] == run["clips"][0]["num_jumps"]
    (note,) = file["notes"]
    assert "size" in note


def write(folder, clip_ids, *, missing=()):
    with RunWriter(folder, Manifest("holistic-543", engine={"engine": folder.name})) as writer:
        for number, clip_id in enumerate(clip_ids):
            split = "dev" if number == 1 else "train"
            writer.add(make_person(4, clip_id=clip_id, split=split, missing=missing))
    return folder


@pytest.fixture
def pair(tmp_path):
    one = write(tmp_path / "one", "ab")
    return str(one), str(write(tmp_path / "two", "abc", missing=("face",)))


def test_a_table_says_agreement_and_distance_of_every_part(pair):
    result = call("compare", *pair)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == f"{pair[0]}  run  holistic-543  one"
    assert lines[2] == "2 clips and 8 frames in both, compared in 543 points of holistic-543"
    rows = {tuple(line.split()[:2]): line.split()[2:] for line in lines[5:]}
    assert rows["dev", "face"] == ["4", "4", "0", "0.0000", "-", "-", "-"]
    assert rows["total", "pose"] == ["8", "8", "8", "1.0000", "0", "0", "0"]
    assert result.stderr == f"note: 1 clip in {pair[1]} only, not compared: train/c\n"


def test_json_and_a_page_of_one_split(pair, tmp_path):
    page = tmp_path / "page.html"
    words = ("--json", "--out", page, "--splits", "dev", "--skeleton", "143")
    result = call("compare", *pair, *words)
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert [each["split"] for each in found["splits"]] == ["dev"]
    assert (found["skeleton_name"], found["page"]) == ("holistic-143", str(page))
    assert found["splits"][0]["parts"]["left_hand"]["median"] == 0
    assert page.is_file()
    assert "original pictures could not be read" in result.stderr


def test_parts_and_faults_have_chinese_names_for_chinese_readers(pair, monkeypatch):
    monkeypatch.setenv("POSEMILL_LANG", "zh")
    for words, chinese, english in (
        (("compare", *pair), "左手", "left hand"),
        (("view", pair[1], "--detailed"), "缺", "missing"),
    ):
        said = call(*words).stdout
        assert chinese in said
        assert english not in said
