import numpy as np
import pytest

from posemill.skeletons import get_skeleton
from posemill.testing import synthetic
from posemill.testing.synthetic import CorpusOptions, make_clips, write_corpus
from posemill.training.config.data_settings import DataSettings
from posemill.training.data.keypoint_clips import load_keypoints


def test_a_corpus_is_read_like_the_real_one(tmp_path):
    options = CorpusOptions(num_glosses=6, num_clips={"train": 6, "dev": 2}, seed=4)
    assert write_corpus(tmp_path, options) == {"train": 6, "dev": 2}
    settings = DataSettings(
        str(tmp_path / "keypoints"), str(tmp_path), task="ctc", num_dims=0, dev_fraction=0.0,
        cache_folder=str(tmp_path / "cache"),
    )  # fmt: skip
    sets = load_keypoints(settings, time_stride=4)
    assert {name: len(made) for name, made in sets.items()} == {"train": 6, "dev": 2}
    assert sets["train"].skeleton_name == "holistic-143"
    assert sets["train"].class_names[:2] == ("<blank>", "<unk>")
    header = next((tmp_path / "annotations" / "manual").glob("*.train.*")).read_text()
    assert header.startswith("name|video|start|end|speaker|orth|translation\n")


def fingerprint(values):
    """Two numbers that any change of the values, or of their order, changes."""
    flat = np.asarray(values, np.float64).ravel()
    return float(flat.sum()), float(flat @ np.cos(np.arange(flat.size)))


def test_a_seed_gives_the_same_people_in_every_version():
    """So that results on a corpus can be compared with those of a year ago."""
    sentences = {"clip0": ["A", "B", "C", "D", "E", "F"], "clip1": ["B"]}
    (long, holes), (short, none) = make_clips(sentences, CorpusOptions(seed=3))
    assert (long.shape, short.shape) == ((82, 143, 3), (18, 143, 3))
    assert fingerprint(long) == pytest.approx((9923.1775, 1.3233), abs=2e-3)
    assert fingerprint(short) == pytest.approx((2346.8087, 0.0197), abs=2e-3)
    assert ((~holes).sum(), (~none).sum()) == (252, 0)


def test_a_seed_gives_the_same_sentences_in_every_version(tmp_path):
    write_corpus(tmp_path, CorpusOptions(6, {"dev": 3}, num_signers=2, seed=4))
    path = tmp_path / "annotations" / "manual" / "SYNTHETIC.dev.corpus.csv"
    spoken = (
        "GLOSS-002 GLOSS-003 GLOSS-003 GLOSS-003 GLOSS-003 GLOSS-003 GLOSS-003",
        "GLOSS-001 GLOSS-000 GLOSS-003 GLOSS-004 GLOSS-001 GLOSS-000",
        "GLOSS-001 GLOSS-000 GLOSS-000 GLOSS-000 GLOSS-000 GLOSS-000 GLOSS-000",
    )
    assert path.read_text().splitlines()[1:] == [
        f"synthetic-dev-000{i}|synthetic-dev-000{i}/1/*.png|-1|-1|Signer0{i % 2 + 1}|{orth}|"
        f"{orth.lower()}"
        for i, orth in enumerate(spoken)
    ]
    with np.load(tmp_path / "keypoints" / "dev_keypoints.npz") as file:
        lengths = file["lengths"]
        assert file["clip_ids"].tolist() == [f"synthetic-dev-000{i}" for i in range(3)]
        assert file["video_ids"].tolist() == np.repeat(file["clip_ids"], lengths).tolist()
        assert file["keypoints"].shape == (lengths.sum(), 143, 3)
        assert file["mask"].shape == (lengths.sum(), 143)
        assert file["mask"].dtype == bool
        assert file["keypoint_names"].tolist() == list(get_skeleton("holistic-143").point_names)


def test_the_usual_corpus_has_80_glosses_and_760_sentences(tmp_path, monkeypatch):
    made = {}

    def write_none(folder, split, sentences, _):
        made[split] = sentences
        folder.mkdir(exist_ok=True)
        (folder / f"{split}_keypoints.npz").touch()

    monkeypatch.setattr(synthetic, "write_keypoints", write_none)
    assert write_corpus(tmp_path) == {"train": 600, "dev": 80, "test": 80}
    assert {split: len(sentences) for split, sentences in made.items()} == write_corpus(tmp_path)
    words = [gloss for glosses in made["train"].values() for gloss in glosses]
    assert set(words) <= {f"GLOSS-{index:03d}" for index in range(80)}
    assert CorpusOptions() == CorpusOptions(80, None, 5, 0.5, 0.12, 0.04, 0.1, 0)
