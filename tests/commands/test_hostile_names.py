"""Names of the user are printed as they are, in both languages, by every command."""

import shlex
import shutil

import cv2
import numpy as np
import pytest
from cli_runner import CliRunner
from made_up_people import make_person, write_run
from made_up_trainings import write_training

import posemill
from posemill.commands.line import load_commands, main
from posemill.runs.queries import Failure

# What joins phrases of ours, what formats strings, templates and sentences of ours, other scripts.
NAMES = (
    "Videos of Anna", "Batch 1 to 20", "no frames", "Anna, best at 3", "100%", "50% of 3",
    "%s %d %(name)s", "{}", "{0}", "{path}", "{run}", "{error}", "{name!r}", "{out!q}", "{", "}}",
    "{--out}", "{--overwrite:True}", "{--layout:videos}", "{num_clips:clip|clips}", "{split}: x",
    "{path}: no such file or folder", "3 clips, 12 frames", "1 clip", "all well", "finished",
    "not finished", "nothing to change", "x; y", "a and b", "; did you mean 'dev'?",
    "posemill: interrupted", "note: --resume", "size: expected 2", "手语 视频", "未完成",
    "片段 of 帧", "שלום עולם", "لغة الإشارة", "[bold]red & <b>",
)  # fmt: skip
LANGUAGES = ("en", "zh")
# Every command, with a path that leads nowhere.
MISSING = {
    "landmarks": "NAME --out x.npz", "extract": "NAME --out run --engine fake",
    "frames": "NAME --out run", "bench decode": "NAME", "bench engine": "NAME",
    "status": "NAME", "stop": "NAME",
    "logs": "NAME", "plan": "NAME", "merge": "NAME other --out run", "prepare": "NAME",
    "export": "NAME --out x.npz", "import": "NAME --out run", "view": "NAME",
    "compare": "NAME NAME", "visualize": "NAME", "report": "NAME", "train": "NAME",
    "evaluate": "NAME", "predict": "NAME NAME", "sweep": "NAME", "tune": "NAME", "advise": "NAME",
    "models pull": "--from-file NAME", "synthetic-corpus": "NAME/file", "demo": "--out NAME/file",
    "serve": "NAME",
}  # fmt: skip
# Those that print no name of the user: they are told none.
NAMELESS = {"doctor", "engines", "models list"}
# What works, with the share of the names that each is tried with: some take a while.
WORKING = {
    "view RUN --detailed": 1, "status RUN": 1, "stop RUN": 1, "status TRAINING": 1,
    "export RUN --out NAME.npz": 2, "prepare RUN --out NAME": 3, "merge RUN --out NAME": 4,
    "import x.npz --out NAME": 4, "compare RUN RUN": 4, "report RUN --out NAME.html": 8,
    "visualize RUN --out NAME --num-samples 1": 8, "frames TREE --out NAME --executor serial": 10,
    "landmarks TREE/train/a --engine fake --out NAME.npz": 8, "advise TRAINING": 4,
    "extract TREE --out NAME --engine fake --executor serial": 10,
    "extract TREE --out NAME --engine fake --dry-run": 4,
    "train TRAINED/config.toml --out TRAINED --resume --no-figures": 8,
}  # fmt: skip


def printed(words, language):
    """Return what a line prints, whatever comes of it."""
    result = CliRunner().invoke(main, words, env={"POSEMILL_LANG": language})
    assert result.exception is None, (words, result.exception)
    return result.output


def assert_shown(name, text):
    """A name is there letter by letter, maybe quoted for a shell or for Python."""
    assert name in text or shlex.quote(name)[1:-1] in text or repr(name)[1:-1] in text, (name, text)


@pytest.fixture(autouse=True)
def working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    """A folder with frames, a run of them, an export and a training."""
    folder = tmp_path_factory.mktemp("material")
    (folder / "tree/train/a").mkdir(parents=True)
    for index in range(2):
        picture = np.full((48, 64, 3), 100 + index, np.uint8)
        assert cv2.imwrite(str(folder / f"tree/train/a/{index}.png"), picture)
    posemill.extract(folder / "tree", folder / "run", engine="fake", executor="serial")
    posemill.export(folder / "run", out=folder / "x.npz")
    write_training(folder / "training")
    rng = np.random.default_rng(0)
    labels = ["video_id,label"]
    for split in ("train", "dev"):
        clip_ids = [f"{split}{index}" for index in range(4)]
        np.savez(
            folder / f"{split}_keypoints.npz",
            keypoints=rng.normal(size=(8, 5, 2)).astype(np.float32),
            video_ids=np.repeat(clip_ids, 2),
        )
        labels += [f"{clip_id},{'ab'[index % 2]}" for index, clip_id in enumerate(clip_ids)]
    (folder / "labels.csv").write_text("\n".join(labels))
    posemill.train(
        data=folder,
        labels=folder / "labels.csv",
        out=folder / "trained",
        model="mlp",
        epochs=1,
        normalize="none",
        parallel="single",
        precision="fp32",
        workers=0,
        figures=False,
        tensorboard=False,
    )
    yield folder
    shutil.rmtree(folder)


def test_every_command_is_told_names():
    assert {*MISSING, *NAMELESS} == set(load_commands()[0])
    assert len(NAMES) == len(set(NAMES)) == 40


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("command", MISSING)
def test_a_name_in_an_error_stays(command, language, tmp_path):
    (tmp_path / "other").touch()
    for name in NAMES if language == "zh" else NAMES[::4]:  # English looks nothing up
        (tmp_path / "file").write_text("")
        path = f"x/{name}" if command not in ("synthetic-corpus", "demo") else name
        if path == name:
            (tmp_path / name).touch()
        words = [word.replace("NAME", path) for word in MISSING[command].split()]
        assert_shown(name, printed([*command.split(), *words], language))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("line", "every"), WORKING.items())
def test_a_name_in_a_result_stays(line, every, language, material, tmp_path):
    shutil.copy(material / "x.npz", tmp_path)
    offset = list(WORKING).index(line)  # so that all names are met by some command
    if language == "en":  # looks nothing up
        every *= 4
    for name in NAMES[offset % every :: every]:
        places = {"RUN": "run", "TREE": "tree", "TRAINING": "training", "TRAINED": "trained"}
        words = line.split()
        for word, source in places.items():
            if any(word in each.split("/") for each in words):
                shutil.copytree(material / source, tmp_path / word / name)
        words = [
            "/".join(f"{part}/{name}" if part in places else part for part in word.split("/"))
            for word in words
        ]
        words = [word.replace("NAME", name) for word in words]
        assert_shown(name, printed(words, language))


@pytest.mark.parametrize("language", LANGUAGES)
def test_names_of_clips_splits_and_reasons_stay(language, tmp_path):
    splits = {name: "train" if index % 2 else name for index, name in enumerate(NAMES)}
    clips = [make_person(1, clip_id=name, split=split) for name, split in splits.items()]
    failures = [
        Failure(f"bad {name}", split, None, 1, name, "truncated", f"{name} is cut")
        for name, split in splits.items()
    ]
    write_run(tmp_path / "run", *clips, failures=failures)
    view = printed(["view", "run", "--detailed"], language)
    failures = printed(["status", "run", "--failures"], language)
    for name in NAMES:
        assert name in view
        assert f"bad {name}" in failures
        assert f"{name} is cut" in failures
