"""The scripts of the requirement in their order, as typed, on a small made-up PHOENIX-2014-T.

Only the program's name differs, and `--engine fake` stands in for the networks. A machine without
a GPU refuses `--num_gpus 4` and names `--workers 4`, which is taken then.
"""

import io
import json
import pickle
import shlex
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import cv2
import numpy as np
import pytest

from posemill.commands.line import main
from posemill.estimators.runtimes.devices import list_gpus

SHAPES = {"face": (68, 3), "left_hand": (21, 3), "right_hand": (21, 3), "pose": (33, 3)}
CLIPS = {
    "train": {"a-1": "REGEN STARK", "a-2": "SONNE"},
    "dev": {"b-1": "WIND"},
    "test": {"c-1": "WOLKE"},
}
COUNTS = {"train": 6, "dev": 3, "test": 3}
COLOUR = (200, 90, 40)  # RGB
DATASET = "/data/phd/wsun/datasets/PHOENIX-2014-T-release-v3/PHOENIX-2014-T"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a release of four clips of three frames."""
    base = tmp_path / "PHOENIX-2014-T-release-v3" / "PHOENIX-2014-T"
    (base / "annotations" / "manual").mkdir(parents=True)
    for split, clips in CLIPS.items():
        lines = ["name|video|start|end|speaker|orth|translation"]
        lines += [f"{name}|{name}/1/*.png|-1|-1|Signer01|{orth}|x" for name, orth in clips.items()]
        corpus = base / "annotations" / "manual" / f"PHOENIX-2014-T.{split}.corpus.csv"
        corpus.write_text("\n".join(lines) + "\n")
        for name in clips:
            make_pictures(base / "features" / "fullFrame-210x260px" / split / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_pictures(folder):
    folder.mkdir(parents=True)
    for number in (1, 2, 3):
        picture = np.full((260, 210, 3), COLOUR[::-1], np.uint8)
        cv2.imwrite(str(folder / f"images{number:04d}.png"), picture)


def run(line):
    """Run a line of the requirement; return its exit code and all it said."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said), pytest.raises(SystemExit) as ended:
        main(shlex.split(line.replace("\\\n", " "))[1:])
    return int(ended.value.code or 0), said.getvalue()


def extract(line, folder, *, executor="serial"):
    """Run an extraction as written; where there is no GPU, again as the message says."""
    line = line.replace(DATASET, str(folder / DATASET.split("datasets/")[1]))
    line += f" --engine fake --executor {executor}"
    if not list_gpus():
        code, said = run(line)
        assert code == 2
        assert "no NVIDIA GPU" in said
        words = line.split()
        per_gpu = 1
        if "--num_workers_per_gpu" in words:
            per_gpu = int(words[words.index("--num_workers_per_gpu") + 1])
            line = line.replace(f"--num_workers_per_gpu {per_gpu}", "")
        assert f"--workers {4 * per_gpu}" in said
        line = line.replace("--num_gpus 4", f"--workers {4 * per_gpu}")
    code, said = run(line)
    assert code == 0, said
    return said


def load(path):
    with open(path, "rb") as f:  # noqa: PTH123 (as the requirement does it)
        return pickle.load(f)


def load_npz(path):
    with np.load(path) as arrays:  # without allow_pickle
        return dict(arrays)


def check_pkl(path, splits):
    """Check keys, counts, shapes and names of a result file; return it."""
    data = load(path)
    assert list(data) == splits
    for split in splits:
        part = data[split]
        # Beside the three of the requirement only the header that we read it by.
        assert set(part) == {"keypoints", "image_paths", "video_ids", "posemill"}
        lengths = {len(part[key]) for key in ("keypoints", "image_paths", "video_ids")}
        assert lengths == {COUNTS[split]}
        for frame in part["keypoints"]:
            assert {name: points.shape for name, points in frame.items()} == SHAPES
        assert all(Path(name).is_file() for name in part["image_paths"])
        assert part["video_ids"] == [name for name in CLIPS[split] for _ in range(3)]
    return data


def same(one, other):
    return all(
        np.array_equal(a[name], b[name])
        for split in one
        for a, b in zip(one[split]["keypoints"], other[split]["keypoints"], strict=True)
        for name in SHAPES
    )


BASIC = f"""posemill extract \\
    --dataset_path {DATASET} \\
    --output_path phoenix_keypoints_full.pkl \\
    --num_gpus 4 \\
    --num_workers_per_gpu 1"""


def test_the_scripts_of_the_requirement_in_their_order(folder):
    # Basic use, with four processes.
    said = extract(BASIC, folder, executor="processes")
    full = check_pkl("phoenix_keypoints_full.pkl", ["train", "dev", "test"])
    assert "mode video: each clip of PHOENIX is the frames of one video" in said
    # The fake engine's scores are 1, as a pickle reads them: nothing of them is lost.
    lost = said.partition("not kept: ")[2]
    assert "scores" not in lost
    assert "picture sizes" in lost
    assert "labels" in lost
    # More processes on each GPU, and the automatic merge: the same run and file again.
    before = Path("phoenix_keypoints_full.pkl").read_bytes()
    extract(BASIC.replace("per_gpu 1", "per_gpu 2"), folder)
    extract(BASIC.replace(" \\\n    --num_workers_per_gpu 1", ""), folder)
    assert Path("phoenix_keypoints_full.pkl").read_bytes() == before
    # In parts.
    only = (
        f"posemill extract --dataset_path {DATASET} --output_path {{}} --splits {{}} --num_gpus 4"
    )
    extract(
        f"{only} --num_workers_per_gpu 1".format("phoenix_keypoints_train.pkl", "train"), folder
    )
    train = check_pkl("phoenix_keypoints_train.pkl", ["train"])
    rest = f"{only} --num_workers_per_gpu 1".format("phoenix_keypoints_dev_test.pkl", "dev test")
    extract(rest, folder)
    assert same(train, full)
    assert same(check_pkl("phoenix_keypoints_dev_test.pkl", ["dev", "test"]), full)
    for split in COUNTS:
        extract(only.format(f"result_{split}.pkl", split), folder)
    # merge_keypoint_results.py
    code, said = run("""posemill merge \\
    --input_files result_train.pkl result_dev.pkl result_test.pkl \\
    --output_path phoenix_keypoints_merged.pkl""")
    assert code == 0, said
    assert "scores" not in said.partition("not kept: ")[2]
    assert same(check_pkl("phoenix_keypoints_merged.pkl", ["train", "dev", "test"]), full)
    # check_extraction_progress.py and view_keypoints.py
    code, said = run("posemill status phoenix_keypoints_full.pkl")
    assert (code, "12/12 frames (100.0%)" in said) == (0, True), said
    code, said = run("posemill view phoenix_keypoints_full.pkl --detailed")
    assert code == 0, said
    for clips in CLIPS.values():
        assert all(name in said for name in clips)
    check_prepared()
    check_pictures()


def check_prepared():
    # prepare_model_input.py
    code, said = run("""posemill prepare \\
    --keypoints_file phoenix_keypoints_full.pkl \\
    --output_dir model_input_data""")
    assert code == 0, said
    assert "phoenix_keypoints_full.run" in said  # whose labels and sizes are taken
    for split, count in COUNTS.items():
        arrays = load_npz(f"model_input_data/{split}_keypoints.npz")
        assert arrays["keypoints"].shape == (count, 143, 3)
        assert arrays["video_ids"].shape == arrays["image_paths"].shape == (count,)
        assert arrays["labels"].tolist() == list(CLIPS[split].values())
        assert arrays["sizes_wh"].tolist() == [[210, 260]] * count
        stats = json.loads(Path(f"model_input_data/{split}_stats.json").read_text())
        assert (stats["num_frames"], stats["num_clips"]) == (count, len(CLIPS[split]))
    parts = load("phoenix_keypoints_full.pkl")["train"]["keypoints"]
    first = np.concatenate([parts[0][name] for name in ("face", "left_hand", "right_hand", "pose")])
    arrays = load_npz("model_input_data/train_keypoints.npz")
    np.testing.assert_array_equal(arrays["keypoints"][0], first)


def check_pictures():
    # visualize_phoenix_keypoints.py
    code, said = run("""posemill visualize phoenix_keypoints_full.pkl \\
    --num_samples 10 \\
    --splits train""")
    assert code == 0, said
    assert "blank" not in said
    drawn = sorted(path.name for path in Path("pictures/train").glob("*.png"))
    wanted = [f"{name}_frame{index:06d}.png" for name in CLIPS["train"] for index in range(3)]
    assert drawn == wanted
    assert Path("pictures/train_contact_sheet.png").is_file()
    picture = cv2.cvtColor(cv2.imread("pictures/train/a-1_frame000000.png"), cv2.COLOR_BGR2RGB)
    assert (picture == COLOUR).all(axis=-1).mean() > 0.3  # on the original picture


def test_the_folders_of_the_openpose_script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for split in ("train", "test"):
        make_pictures(tmp_path / "posewarp" / split / "frames")
    code, said = run("posemill extract posewarp --out run --resize 256 --engine fake --mode image "
                     "--executor serial")  # fmt: skip
    assert code == 0, said
    code, said = run("posemill export run --to txt --out labels --replace frames=annotation")
    assert code == 0, said
    for split in ("train", "test"):
        files = sorted((tmp_path / "labels" / split / "annotation").glob("*.txt"))
        assert [path.name for path in files] == [f"images{n:04d}.txt" for n in (1, 2, 3)]
        for path in files:
            points = np.loadtxt(path)
            assert points.shape == (18, 2)
            assert points.max() <= 256


def test_a_dry_run_names_the_mode_and_why_and_says_that_there_is_no_gpu_as_the_run_does(folder):
    line = BASIC.replace(DATASET, str(folder / DATASET.split("datasets/")[1])) + " --engine fake"
    on_cpu = line.replace("--num_gpus 4 \\\n    --num_workers_per_gpu 1", "--dry-run")
    code, said = run(on_cpu)
    assert code == 0, said
    assert "mode video: each clip of PHOENIX is the frames of one video" in said
    assert "--mode image" in said
    code, said = run(f"{on_cpu} --mode image")
    assert "mode image, as --mode says" in said
    assert not Path("phoenix_keypoints_full.run").exists()
    if list_gpus():
        return
    sentence = (
        "--num-gpus 4: this machine has no NVIDIA GPU that its driver lists; --workers 8 instead "
        "uses 8 processes on the CPU"
    )
    line = line.replace("per_gpu 1", "per_gpu 2")
    code, said = run(line)
    assert (code, sentence in said) == (2, True), said
    code, said = run(f"{line} --dry-run")
    assert (code, f"note: {sentence}" in said) == (0, True), said
    assert "would start a run" in said  # another machine may have them


@pytest.mark.parametrize(
    "line",
    ["extract tree --out {}", "frames tree --out {}", "merge tree --out {}",
     "prepare old.pkl --out {}", "import old.pkl --out {}", "visualize old.pkl --out {}",
     "train --data old.pkl --out {}", "train --data old.pkl --leave-out signer --out {}",
     "sweep sweep.toml --out {}", "sweep sweep.toml --dry-run --out {}"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["a.txt", "a.npy"])
def test_a_folder_is_not_called_as_a_file(line, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_pictures(tmp_path / "tree")
    frame = {part: np.zeros(shape) for part, shape in SHAPES.items()}
    old = {"train": {"keypoints": [frame], "image_paths": ["a/0.png"], "video_ids": ["a"]}}
    Path("old.pkl").write_bytes(pickle.dumps(old))
    Path("sweep.toml").write_text("[grid]\nlr = [0.1]\n")
    code, said = run(f"posemill {line.format(name)}")
    assert (code, f"{name}: " in said, "--out a" in said) == (2, True, True), said
    assert not Path(name).exists()
