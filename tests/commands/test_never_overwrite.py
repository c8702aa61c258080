"""Every command that writes, against files of somebody else under the names of its outputs."""

import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
from cli_runner import CliRunner
from made_up_people import make_person, write_run

from posemill.commands.line import main

FOREIGN = b"seventy hours of work"
FAKE = ("--engine", "fake", "--executor", "serial")
# Single files: the message names --overwrite, which replaces them.
FILES = {
    "extract": ("extract", "tree", "--output_path", "out.pkl", *FAKE),
    "merge": ("merge", "run", "--output_path", "out.npz"),
    "prepare": ("prepare", "run", "--output_dir", "out"),
    "export pkl": ("export", "run", "--out", "out.pkl"),
    "export npz": ("export", "run", "--out", "out.npz"),
    "export csv": ("export", "run", "--out", "out.csv"),
    "export pose": ("export", "one", "--to", "pose", "--out", "out.pose"),
    "export without an ending": ("export", "run", "--to", "parquet", "--out", "out"),
    "visualize": ("visualize", "one", "--out", "out", "--num_samples", "1"),
    "visualize maps": ("visualize", "one", "--out", "out", "--style", "openpose", "--all"),
    "visualize movies": ("visualize", "one", "--out", "out", "--video", "gif"),
    "report": ("report", "run", "--out", "out.html"),
    "compare": ("compare", "run", "run", "--out", "out.html"),
    "landmarks": ("landmarks", "tree/train/a", "--out", "out.npz", "--engine", "fake"),
    "synthetic-corpus": ("synthetic-corpus", "out", "--glosses", "3", "--train", "4"),
}
# Whole folders: what is no run, no export and no training of ours is not replaced at all.
FOLDERS = {
    "extract": ("extract", "tree", "--out", "out", *FAKE),
    "frames": ("frames", "tree", "--out", "out", "--executor", "serial"),
    "merge": ("merge", "run", "--out", "out"),
    "import": ("import", "run.npz", "--out", "out"),
    "export txt": ("export", "run", "--to", "txt", "--out", "out"),
    "export openpose": ("export", "run", "--to", "openpose", "--out", "out"),
    "export pose": ("export", "run", "--to", "pose", "--out", "out"),
    "export huggingface": ("export", "run", "--to", "huggingface", "--out", "out"),
}
# These look at the names before the work, which takes too long here.
NAMED = {
    "demo": (("demo", "--out", "out"), ["out/clips.csv", "out/keypoints.csv"]),
    "tune": (("tune", "--data", "data", "--out", "out.toml"), ["out.toml"]),
    "train": (
        ("train", "--data", "data", "--out", "out"),
        ["out/config.toml", "out/log.txt", "out/metrics.jsonl", "out/checkpoints/last.pt"],
    ),
    "sweep": (("sweep", "sweep.toml", "--out", "out"), ["out/sweep.json", "out/log.txt"]),
}


def call(args):
    """Run the program as it is: with its exit code and its message."""
    return CliRunner().invoke(main, args)


@pytest.fixture(scope="module")
def material(tmp_path_factory, request):
    """A tree of pictures, a run of two clips and one of one clip, an npz, a sweep."""
    folder = tmp_path_factory.mktemp("material")
    for name in ("train/a/0.png", "train/a/1.png", "dev/b/0.png"):
        (folder / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(folder / "tree" / name), np.full((24, 32, 3), 90, np.uint8))
    for run, splits in {"run": ("train", "dev"), "one": ("train",)}.items():
        clips = [make_person(3, clip_id=f"{split}1", split=split) for split in splits]
        write_run(folder / run, *clips)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert call(("prepare", "run", "--out", "data")).exit_code == 0
        assert call(("export", "run", "--out", "run.npz")).exit_code == 0
    (folder / "sweep.toml").write_text(
        'out = "out"\n[settings]\ndata = "data"\n[grid]\nseed = [1]\n'
    )
    return folder


@pytest.fixture
def fresh(material, tmp_path, monkeypatch):
    """Return a function that makes a new copy of the material and goes there."""

    def make(name):
        shutil.copytree(material, tmp_path / name)
        monkeypatch.chdir(tmp_path / name)

    return make


def files_here():
    return {path for path in Path().rglob("*") if path.is_file() or path.is_symlink()}


def names_written(args, fresh):
    """Run the command where nothing is in its way; return the files that it wrote."""
    fresh("clean")
    before = files_here()
    result = call(args)
    assert result.exit_code == 0, result.output
    again = call(args)  # what it wrote itself for the same source is no obstacle
    if args[0] not in ("merge", "import"):
        assert again.exit_code == 0, again.output
    return sorted(path for path in files_here() - before if not path.name.startswith(".posemill"))


def plant(path, kind):
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "file":
        path.write_bytes(FOREIGN)
    elif kind == "folder":
        path.mkdir()
        (path / "precious.txt").write_bytes(FOREIGN)
    else:
        Path("precious.txt").write_bytes(FOREIGN)
        path.symlink_to(Path("precious.txt").absolute())


def contents():
    return {path: path.read_bytes() for path in files_here()}


def check_refused(args, path, kind):
    plant(path, kind)
    before = contents()
    result = call(args)
    assert result.exit_code == 2, (path, kind, result.output)
    after = contents()
    assert {name: after.get(name) for name in before} == before, (path, kind)
    assert path.is_symlink() == (kind == "link")
    return " ".join(result.output.split())


@pytest.mark.parametrize("command", FILES)
def test_a_foreign_file_folder_or_link_stays_and_overwrite_is_named(command, fresh):
    args = FILES[command]
    names = [path for path in names_written(args, fresh) if ".run" not in str(path)]
    assert names
    for index, path in enumerate(names):
        fresh(f"planted{index}")
        message = check_refused(args, path, "file")
        assert path.name in message
        assert "--overwrite" in message
    result = call((*args, "--overwrite"))
    assert result.exit_code == 0, result.output
    assert names[-1].read_bytes() != FOREIGN
    for kind in ("folder", "link"):
        fresh(kind)
        assert names[-1].name in check_refused(args, names[-1], kind)


@pytest.mark.parametrize("command", FOLDERS)
def test_a_folder_with_something_foreign_in_it_stays(command, fresh):
    names = names_written(FOLDERS[command], fresh)
    tops = {path.parts[1]: path for path in names}  # one of each name at the top
    for index, path in enumerate(tops.values()):
        fresh(f"planted{index}")
        assert "out" in check_refused(FOLDERS[command], path, "file")
    fresh("file")
    assert "out" in check_refused(FOLDERS[command], Path("out"), "file")


@pytest.mark.parametrize(
    ("command", "path"), [(name, path) for name, (_, paths) in NAMED.items() for path in paths]
)
@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_foreign_file_stays_where_the_work_is_long(command, path, kind, fresh):
    fresh("planted")
    message = check_refused(NAMED[command][0], Path(path), kind)
    assert Path(path).parts[0] in message


def test_a_finished_extraction_writes_its_file_again_and_replaces_no_changed_one(fresh):
    args = FILES["extract"]
    fresh("clean")
    assert call(args).exit_code == 0
    whole = Path("out.pkl").read_bytes()
    Path("out.pkl").unlink()  # as after a kill before the export
    assert call(args).exit_code == 0
    assert Path("out.pkl").read_bytes() == whole
    Path("out.pkl").write_bytes(whole + b" and what I added")
    said = call(args)
    assert said.exit_code == 2
    assert "out.pkl is a file that posemill did not write" in said.output.replace("\n", " ")
    assert "expected a folder for the run, or a new file" in said.output.replace("\n", " ")
    assert Path("out.pkl").read_bytes().endswith(b"what I added")
