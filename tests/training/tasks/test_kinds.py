import numpy as np
import pytest
from small_sets import QUIET

import posemill
from posemill.errors import ConfigError


@pytest.fixture
def sounds(tmp_path, install_entry_points):
    """High and low sounds of 5 to 9 moments, and the package that brings their kind."""
    install_entry_points({"posemill.kinds": {"audio": "audio_kind:AudioKind"}})
    rng = np.random.default_rng(0)
    for split, count in (("train", 24), ("dev", 8), ("test", 8)):
        for number in range(count):
            label = ("high", "low")[number % 2]
            sound = rng.normal(size=(rng.integers(5, 10), 3)) + (2 if label == "high" else -2)
            path = tmp_path / "sounds" / split / label / f"{number}.npy"
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, sound)
    return tmp_path / "sounds"


def settings(sounds, **changes):
    usual = {"data": str(sounds), "data_kind": "audio", "epochs": 6, "batch_size": 8, "lr": 0.1,
             "out": str(sounds.parent / "run")}  # fmt: skip
    return {**QUIET, **usual, **changes}


def test_a_kind_of_another_package_is_trained_scored_and_used(sounds):
    whole = posemill.train(**settings(sounds, figures=True))
    assert whole.scores["test"]["accuracy"] == 1
    scores = posemill.evaluate(whole.out, split="test")
    assert (scores["accuracy"], scores["num_clips"]) == (1, 8)
    assert type(posemill.load_model(whole.out)).__name__ == "MeanNet"
    lines = (whole.out / "predictions.csv").read_text().splitlines()
    assert "test,high/0,high,high," in "\n".join(lines)
    names = sorted(path.name for path in (whole.out / "figures").iterdir())
    assert names == ["confusion.png", "curves.png", "per_class.png"]


def test_models_of_other_kinds_and_kinds_that_nobody_brings_are_refused(sounds):
    with pytest.raises(ConfigError, match="kind"):
        posemill.train(**settings(sounds, data_kind="smell"))
    with pytest.raises(ConfigError, match=r"model stgcn takes keypoints, and .* is audio"):
        posemill.train(**settings(sounds, model="stgcn"))
    run = posemill.train(**settings(sounds, max_steps=1, normalize="whole"))
    assert "has no effect: the data is audio" in " ".join(run.summary["notes"])
    with pytest.raises(ConfigError, match="was trained on audio, which predict cannot read"):
        list(posemill.predict(run.out, sounds))
