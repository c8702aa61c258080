import json
import re
from pathlib import Path

import numpy as np
import pytest
from cli_runner import call
from made_up_people import write_run

import posemill
from posemill.commands.data import say_losses
from posemill.commands.line import main
from posemill.errors import ConfigError, RunError
from posemill.jobs.convert.shaping import dropped_points
from posemill.messages import Flags, Message, render
from posemill.records import PoseClip
from posemill.runs.queries import Failure
from posemill.runs.reader import open_run


def make_clip(seed, split="train"):
    points = np.random.default_rng(seed).uniform(0.1, 0.9, (4, 543, 3)).astype(np.float32)
    points[1, 501:522] = np.nan
    scores = (~np.isnan(points[..., 0])).astype(np.float32)
    sizes = np.full((4, 2), (64, 48), np.int32)
    return PoseClip(points, scores, sizes, clip_id=f"clip_{seed}", split=split)


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "run", make_clip(1), make_clip(2, "dev"))


def test_prepare_writes_arrays_and_says_what(run, tmp_path):
    result = call("prepare", run, "--out", tmp_path / "model", "--interpolate", 2,
                  "--normalize", "shoulders", "--fill", "nan")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "train_keypoints.npz" in result.stdout
    assert np.load(tmp_path / "model" / "train_keypoints.npz")["mask"].all()
    result = call("prepare", run, "--out", tmp_path / "model", "--json", "--splits", "dev")
    (made,) = json.loads(result.stdout)
    assert (made["split"], made["num_frames"]) == ("dev", 4)
    assert made["options"]["fill"] == "zero"


def test_export_and_import_go_there_and_back(run, tmp_path):
    result = call("export", run, "--to", "pkl", "--out", tmp_path / "a.pkl")
    assert result.exit_code == 0, result.output
    assert "a.pkl: 2 clips, 8 frames (pkl)" in result.stdout
    assert "not kept: picture sizes" in result.stderr
    result = call("import", tmp_path / "a.pkl", "--out", tmp_path / "back", "--size", "64x48")
    assert result.exit_code == 0, result.output
    assert "train: 1 clip\ndev: 1 clip\n" in result.stdout
    assert open_run(tmp_path / "back").clip("clip_1").sizes_wh[0].tolist() == [64, 48]


@pytest.mark.parametrize(
    "args",
    [("prepare",), ("export", "--to", "coco"), ("merge",), ("import", "--from", "npz")],
    ids=lambda args: args[0],
)
def test_a_dry_run_counts_and_writes_nothing(run, tmp_path, args):
    source = run
    if args[0] == "import":
        source = tmp_path / "a.npz"
        call("export", run, "--to", "npz", "--out", source)
    result = call(args[0], source, "--out", tmp_path / "new", *args[1:], "--dry-run")
    assert result.exit_code == 0, result.output
    assert "2 clips, 8 frames" in result.stdout
    assert "--dry-run" in result.stdout
    assert not (tmp_path / "new").exists()
    said = call(args[0], source, "--out", tmp_path / "new", *args[1:], "--dry-run", "--json")
    assert json.loads(said.stdout)["dry_run"] is True


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("export RUN --to npx --out x", "unknown format 'npx'; known: npz, pkl"),
        ("export RUN --to txt --out x --skeleton 143", "txt holds openpose"),
        ("export RUN --to txt --out x --replace frames", "--replace: expected OLD=NEW, as frames"),
        ("export RUN --to npz --out x --replace a=b", "npz has no folders of its source"),
        ("export RUN --to npz --out x.csv", "'.csv' is the ending of csv, not of npz"),
        ("export RUN --out a", "give the format by --to, one of npz, pkl"),
        ("export RUN --to pose --out .", "expected the name of a new folder"),
        ("export RUN --to txt --out .", "expected the name of a new folder, as keypoints"),
        ("export RUN --to npz --out there", "there is a folder; expected the name of a file, as"),
        ("export RUN --to pkl --out ./", ". is a folder; expected the name of a file, as keypoi"),
        ("prepare RUN --out file", "cannot be written: file is a file, expected a folder"),
        ("prepare RUN --out file/x", "cannot be written: file is a file, expected a folder"),
        ("prepare a.pkl --skeleton 543 --out x/y", "choose another --skeleton"),
        ("export a.pkl --to npz --skeleton 543 --out x/y", "choose another --skeleton"),
        ("import a.pkl --skeleton 543 --out x/y", "choose another --skeleton"),
        ("export a.pkl --to npz --splits tarin --out x", "no split 'tarin'; it has train, dev"),
        ("prepare a.pkl --splits tarin --out x", "no split 'tarin'; it has train, dev"),
        ("import a.pkl --splits tarin --out x", "no split 'tarin'; it has train, dev"),
        ("prepare RUN --normalize hips", "unknown normalize 'hips'"),
        ("prepare nowhere", "nowhere: no such file or folder"),
        ("import RUN/manifest.json --out x", "none of the formats known"),
        ("import RUN --out .", "expected the name of a new folder"),
        ("merge RUN --out .", "expected the name of a new folder"),
        ("import RUN --out RUN", "holds a run already; choose another folder"),
        ("import RUN --out RUN --dry-run", "holds a run already; choose another folder"),
        ("merge RUN --out RUN", "holds a run already; choose another folder"),
        ("merge RUN --out RUN --dry-run", "holds a run already; choose another folder"),
    ],
)
def test_errors_are_one_line_and_exit_code_2_and_leave_nothing(
    run, capsys, monkeypatch, tmp_path, words, message
):
    (tmp_path / "work" / "there").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    Path("file").touch()
    if "a.pkl" in words:
        posemill.export(run, out="a.pkl")
    before = sorted(Path().iterdir())
    with pytest.raises(SystemExit) as caught:
        main(words.replace("RUN", str(run)).split())
    assert caught.value.code == 2
    assert message in capsys.readouterr().err
    assert sorted(Path().iterdir()) == before


@pytest.mark.parametrize("command", ["prepare", "export", "merge", "import", "view"])
def test_options_that_errors_name_are_taken_by_every_command(tmp_path, command):
    frame = {"version": 1.3, "people": [{"pose_keypoints_2d": [32.0, 24.0, 0.5] * 25}]}
    (tmp_path / "frames.txt").write_text(json.dumps([frame] * 3))
    args = [] if command == "view" else ["--out", tmp_path / "out"]
    args += ["--to", "npz"] if command == "export" else []
    bare = call(command, tmp_path / "frames.txt", *args)
    assert "name it by --from" in render(bare.exception, flags=Flags())
    args += ["--from", "openpose-file"]
    result = call(command, tmp_path / "frames.txt", *args)
    assert "give one by --size WIDTHxHEIGHT" in render(result.exception, flags=Flags())
    result = call(command, tmp_path / "frames.txt", *args, "--size", "64x48", "--json")
    assert result.exit_code == 0, result.output
    assert '"num_frames": 3' in result.stdout


def test_merge_takes_runs_beside_files_of_the_named_format(run, tmp_path):
    call("export", run, "--to", "npz", "--skeleton", "543", "--out", tmp_path / "a.npz")
    (tmp_path / "a.npz").rename(tmp_path / "a")
    words = ("merge", run, tmp_path / "a", "--from", "npz", "--out")
    result = call(*words, tmp_path / "all")
    assert result.exit_code == 0, result.output
    assert "2 came twice, equal" in result.stdout
    said = json.loads(call(*words, tmp_path / "again", "--json").stdout)
    assert (said["num_clips"], said["equal_duplicates"]) == (2, 2)


def test_a_pkl_is_normalised_by_the_size_that_is_given(run, tmp_path):
    call("export", run, "--to", "pkl", "--out", tmp_path / "a.pkl")
    options = ("--normalize", "shoulders", "--out")
    result = call("prepare", tmp_path / "a.pkl", *options, tmp_path / "a")
    assert "needs the size of the pictures" in str(result.exception)
    result = call("prepare", tmp_path / "a.pkl", *options, tmp_path / "a", "--size", "64x48")
    assert result.exit_code == 0, result.output
    call("prepare", run, *options, tmp_path / "b")
    one, other = (np.load(tmp_path / name / "train_keypoints.npz")["keypoints"] for name in "ab")
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_points_that_a_layout_leaves_out_are_said_when_it_is_written(run, tmp_path):
    said = "400 of 468 points of face (holistic-543 as holistic-143)"
    whole = call("export", run, "--to", "npz", "--skeleton", "543", "--out", tmp_path / "b.npz")
    assert "not kept" not in whole.stderr
    for args in (("export", run, "--to", "npz", "--out", tmp_path / "a.npz"),
                 ("export", run, "--to", "pkl", "--out", tmp_path / "a.pkl"),
                 ("export", run, "--to", "npz", "--out", tmp_path / "a.npz", "--dry-run"),
                 ("prepare", run, "--out", tmp_path / "model"),
                 ("merge", run, "--skeleton", "143", "--dry-run", "--out", tmp_path / "new"),
                 ("import", tmp_path / "b.npz", "--skeleton", "143", "--dry-run", "--out",
                  tmp_path / "new")):  # fmt: skip
        assert said in call(*args).stderr.partition("not kept: ")[2]
        assert said in call(*args, "--json").stdout
    result = call("merge", run, "--skeleton", "143", "--out", tmp_path / "new")
    assert result.stderr == f"not kept: {said}\n"
    assert call("merge", run, "--out", tmp_path / "same").stderr == ""


def test_a_dry_run_of_prepare_looks_at_the_names_of_splits(tmp_path):
    run = write_run(tmp_path / "run", make_clip(1, "a/b"))
    result = call("prepare", run, "--dry-run", "--out", tmp_path / "out")
    assert "name of split 'a/b' cannot be part of a file's name" in str(result.exception)


def test_normalised_keypoints_are_not_said_to_miss_their_pictures(run, tmp_path):
    call("prepare", run, "--normalize", "shoulders", "--out", tmp_path / "model")
    result = call("visualize", tmp_path / "model", "--num-samples", 2, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "4 frames of normalised keypoints drawn on a blank canvas" in result.stderr
    assert "--originals" not in result.stderr


def test_the_recipe_that_is_printed_is_all_that_was_done(run, tmp_path):
    call("prepare", run, "--normalize", "bbox", "--out", tmp_path / "model")
    for more in ((), ("--dry-run",)):
        result = call("export", tmp_path / "model", "--to", "hdf5", "--interpolate", 2, "--json",
                      "--out", tmp_path / "a.h5", *more)  # fmt: skip
        assert json.loads(result.stdout)["recipe"] == {
            "layout": None, "normalize": "bbox", "interpolate": 2, "smooth": "none", "fill": "zero"
        }  # fmt: skip


def test_a_run_in_which_everything_failed_says_where_the_reasons_are(tmp_path):
    failure = Failure("a", "train", None, 2, "a.png", "not an image", "?")
    run = write_run(tmp_path / "run", failures=[failure])
    for args in (("prepare",), ("export", "--to", "npz")):
        result = call(args[0], run, *args[1:], "--out", tmp_path / "x")
        assert re.search("holds no clips; .* why: posemill view .*run", str(result.exception))


def test_export_takes_the_format_from_the_ending(run, tmp_path):
    result = call("export", run, "--out", tmp_path / "a.csv")
    assert "a.csv: 2 clips, 8 frames (csv)" in result.stdout, result.output
    assert "nothing was written" in call("export", run, "--out", "a.npz", "--dry-run").stdout


def test_a_source_that_is_said_twice_or_not_at_all_is_refused(run, tmp_path):
    both = call("prepare", run, "--keypoints-file", run, "--out", tmp_path / "both")
    assert isinstance(both.exception, ConfigError)
    assert not (tmp_path / "both").exists()
    for words in (["prepare"], ["merge", "--out", tmp_path / "x"]):
        missing = call(*words)
        assert missing.exit_code == 2
        assert "RUN_OR_FILE" in missing.stderr


def test_losses_are_said_in_chinese_one_by_one(monkeypatch, capsys):
    losses = (
        "z",
        Message("x and y beyond a thousandth of a pixel; scores beyond a millionth"),
        dropped_points("openpose-18", "coco-17"),
    )
    say_losses(losses)
    assert capsys.readouterr().err == f"not kept: {'; '.join(losses)}\n"
    monkeypatch.setenv("POSEMILL_LANG", "zh")
    say_losses(losses)
    assert capsys.readouterr().err == (
        "未保留：z；x、y 的千分之一像素以下部分；置信度的百万分之一以下部分；"
        "姿态的 18 个点中的 1 个（openpose-18 转为 coco-17）\n"
    )


def test_merging_into_the_same_file_again_names_what_was_typed(run, tmp_path):
    arguments = ["merge", run, "--output_path", tmp_path / "all.pkl"]
    said = f"{tmp_path / 'all.pkl'} written; the run is {tmp_path / 'all.run'}"
    assert said in call(*arguments).stderr
    error = call(*arguments).exception
    assert isinstance(error, RunError)
    assert str(error).startswith(str(tmp_path / "all.pkl"))
    assert "overwrite" in str(error)
    assert call(*arguments, "--overwrite").exit_code == 0
