from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from posemill.errors import TrainingError
from posemill.training.data.annotations import read_annotations
from posemill.training.data.datasets import load_sets
from posemill.training.data.options import DataOptions
from posemill.training.data.synthetic import (
    CorpusOptions,
    make_clips,
    write_corpus,
    write_keypoints,
    write_keypoints_of,
)

SMALL = CorpusOptions(num_glosses=6, num_clips={"train": 6, "dev": 2}, seed=4)


def test_a_corpus_is_read_like_the_real_one(tmp_path: Path) -> None:
    assert write_corpus(tmp_path, SMALL) == {"train": 6, "dev": 2}
    sets = load_sets(
        DataOptions(
            str(tmp_path / "keypoints"), str(tmp_path), task="ctc", cache_folder=str(tmp_path / "c")
        ),
        time_stride=4,
    )
    assert {name: len(made) for name, made in sets.items()} == {"train": 6, "dev": 2}
    assert sets["train"].skeleton_name == "holistic-143"
    assert sets["train"].class_names[:2] == ("<blank>", "<unk>")
    header = next((tmp_path / "annotations" / "manual").glob("*.train.*")).read_text()
    assert header.startswith("name|video|start|end|speaker|orth|translation\n")


def test_the_seed_decides_everything(tmp_path: Path) -> None:
    for name, seed in (("a", 4), ("b", 4), ("c", 5)):
        write_corpus(tmp_path / name, CorpusOptions(6, {"train": 3}, seed=seed))
    files = [(tmp_path / name / "keypoints" / "train_keypoints.npz").read_bytes() for name in "abc"]
    assert files[0] == files[1] != files[2]


def test_two_takes_of_a_gloss_differ_and_two_glosses_differ_more() -> None:
    clean = CorpusOptions(num_signers=1, noise=0.0, missing=0.0)
    sentences = {"one": ["A"], "two": ["A"], "three": ["B"]}
    one, two, three = (points[5:15, 89:110].mean(0) for points, _ in make_clips(sentences, clean))
    assert 0 < np.abs(one - two).mean() < np.abs(one - three).mean() / 2


def test_a_sign_depends_on_its_neighbours_by_coarticulation() -> None:
    sentences = {"x": ["A", "B"]}
    plain, bent = (
        next(make_clips(sentences, CorpusOptions(coarticulation=share, noise=0.0)))[0]
        for share in (0.0, 0.5)
    )
    assert np.abs(plain - bent).max() > 0.01


def test_hands_go_missing_for_some_frames() -> None:
    clips = list(make_clips({str(i): ["A"] * 5 for i in range(20)}, CorpusOptions(missing=0.1)))
    hands = np.concatenate([mask[:, 68:89] for _, mask in clips])
    assert 0.05 < 1 - hands.mean() < 0.2
    assert all((points[~mask] == 0).all() for points, mask in clips)


def test_keypoints_for_existing_annotations(tmp_path: Path) -> None:
    head = "name|video|start|end|speaker|orth|translation\n"
    path = tmp_path / "X.dev.corpus.csv"
    path.write_text(head + "x|x/1/*.png|-1|-1|S|REGEN|r\ny|y/1/*.png|-1|-1|S|SONNE REGEN|s\n")
    write_keypoints_of(path, tmp_path / "keypoints", CorpusOptions(num_clips={"dev": 1}))
    with np.load(tmp_path / "keypoints" / "dev_keypoints.npz") as file:
        assert set(file["video_ids"]) == {"x"}


def test_the_real_annotations_are_read_by_the_same_options(shared: Path, tmp_path: Path) -> None:
    real = shared / "datasets" / "phoenix14t"
    limits = CorpusOptions(num_clips={"train": 20, "dev": 5, "test": 5})
    write_keypoints_of(real, tmp_path / "keypoints", limits)
    options = DataOptions(
        str(tmp_path / "keypoints"), str(real), task="ctc", short_clips="drop",
        cache_folder=str(tmp_path / "cache"),
    )  # fmt: skip
    sets = load_sets(options, time_stride=4)
    assert len(sets["dev"]) == 5
    found = read_annotations(real)
    first = sets["train"]
    words = [first.class_names[i] for i in np.atleast_1d(first.targets[0])]
    assert words == found[first.clip_ids[0]].label.split()


def test_nothing_to_make_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="num_glosses: expected 2 or more, got 1"):
        write_corpus(tmp_path, CorpusOptions(num_glosses=1))
    with pytest.raises(TrainingError, match="split 'dev': no sentences"):
        write_keypoints(tmp_path, "dev", {}, CorpusOptions())
