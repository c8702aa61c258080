from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from posemill.clips.inputs import ClipInput
from posemill.config import ExtractConfig
from posemill.decoders.pictures import read_picture
from posemill.errors import SourceError
from posemill.estimators.fake import FakeEstimator
from posemill.jobs import landmarks
from posemill.jobs.convert.prepare import prepare
from posemill.jobs.extract.run import extract
from posemill.jobs.new_clips import clips_like
from posemill.terminal import warn_once


@pytest.fixture(autouse=True)
def _fake_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landmarks, "open_estimator", lambda *_, **__: FakeEstimator())


def test_a_folder_of_pictures_is_one_clip_in_the_layout_asked_for(
    make_tree: Callable[..., Path],
) -> None:
    root = make_tree({"a": 5})
    frames: list[int] = []
    (found,) = clips_like(root / "a", "holistic-143", {}, on_frame=lambda: frames.append(1))
    clip, errors = found
    assert (clip.clip_id, clip.skeleton_name, len(clip), errors) == ("a", "holistic-143", 5, [])
    assert len(frames) == 5


def test_a_run_is_read_and_shaped_by_the_recipe(
    make_tree: Callable[..., Path], config_for: Callable[..., ExtractConfig]
) -> None:
    config: Any = config_for(make_tree({"train/a": 4, "dev/b": 3}))
    extract(config)
    plain = [clip for clip, _ in clips_like(config.out, "holistic-143", {})]
    moved = [clip for clip, _ in clips_like(config.out, "holistic-143", {"normalize": "bbox"})]
    assert [len(clip) for clip in plain] == [4, 3]
    assert not np.allclose(plain[0].points, moved[0].points, equal_nan=True)


def test_keypoints_are_found_as_those_of_the_models_data_were(
    make_tree: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    warn_once.cache_clear()  # another test may have been told
    root = make_tree({"a": 5})
    how = {"engine": "fake", "engine_options": {}, "mode": "image", "decoder": "pyav"}
    ((alone, _),) = clips_like(root / "a", "holistic-543", {"extraction": how})
    assert not caplog.text
    ((tracked, _),) = clips_like(root / "a", "holistic-543", {})
    assert "do not say how their keypoints were found; new ones are found by engine" in caplog.text
    frames = [read_picture(path) for path in alone.image_paths]
    np.testing.assert_array_equal(alone.points, FakeEstimator().estimate(frames).points)
    assert (alone.points != tracked.points).any()


def test_prepare_records_how_the_keypoints_were_found_for_a_model_to_come(
    make_tree: Callable[..., Path], config_for: Callable[..., Any], tmp_path: Path
) -> None:
    config = config_for(
        make_tree({"train/a": 4}), mode="image", engine_options={"seconds_per_frame": 0.0}
    )
    extract(config)
    (split,) = prepare(ClipInput(config.out), tmp_path / "data")
    found = split.stats["options"]["extraction"]
    assert found == {
        "engine": "fake", "engine_options": {"seconds_per_frame": 0.0}, "mode": "image",
        "decoder": "pyav",
    }  # fmt: skip
    with np.load(split.path) as arrays:
        assert json.loads(str(arrays["meta"].reshape(-1)[0]))["recipe"]["extraction"] == found


def test_a_source_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"absent\.mp4: no such file or folder; expected a video"):
        list(clips_like(tmp_path / "absent.mp4", "holistic-143", {}))
