import json

import numpy as np
import pytest

from posemill.clips.inputs import ClipInput
from posemill.decoders.pictures import read_picture
from posemill.errors import ConfigError, DecodeError, SourceError
from posemill.estimators.fake import FakeEstimator
from posemill.jobs import landmarks
from posemill.jobs.convert.prepare import prepare
from posemill.jobs.extract.run import extract
from posemill.jobs.landmarks import clips_like
from posemill.terminal import warn_once

HOW = {"extraction": {"engine": "fake", "engine_options": {}, "mode": "image", "decoder": "pyav"}}


@pytest.fixture(autouse=True)
def _fake_engine(monkeypatch):
    monkeypatch.setattr(landmarks, "open_estimator", lambda *_, **__: FakeEstimator())


def test_a_folder_of_pictures_is_one_clip_in_the_layout_asked_for(make_tree):
    root = make_tree({"a": 5})
    frames = []
    (found,) = clips_like(root / "a", "holistic-143", {}, on_frame=lambda: frames.append(1))
    clip, errors = found
    assert (clip.clip_id, clip.skeleton_name, len(clip), errors) == ("a", "holistic-143", 5, [])
    assert len(frames) == 5


def test_a_run_is_read_and_shaped_by_the_recipe(make_tree, config_for):
    config = config_for(make_tree({"train/a": 4, "dev/b": 3}))
    extract(config)
    plain = [clip for clip, _ in clips_like(config.out, "holistic-143", {})]
    moved = [clip for clip, _ in clips_like(config.out, "holistic-143", {"normalize": "bbox"})]
    assert [len(clip) for clip in plain] == [4, 3]
    assert not np.allclose(plain[0].points, moved[0].points, equal_nan=True)


def test_keypoints_are_found_as_those_of_the_models_data_were(make_tree, caplog):
    warn_once.cache_clear()  # another test may have been told
    root = make_tree({"a": 5})
    ((alone, _),) = clips_like(root / "a", "holistic-543", HOW)
    assert not caplog.text
    ((tracked, _),) = clips_like(root / "a", "holistic-543", {})
    assert "do not say how their keypoints were found; new ones are found by engine" in caplog.text
    frames = [read_picture(path) for path in alone.image_paths]
    np.testing.assert_array_equal(alone.points, FakeEstimator().estimate(frames).points)
    assert (alone.points != tracked.points).any()


def test_prepare_records_how_the_keypoints_were_found_for_a_model_to_come(
    make_tree, config_for, tmp_path
):
    options = {"seconds_per_frame": 0.0}
    config = config_for(make_tree({"train/a": 4}), mode="image", engine_options=options)
    extract(config)
    (split,) = prepare(ClipInput(config.out), tmp_path / "data")
    recorded = split.stats["options"]["extraction"]
    assert recorded == {**HOW["extraction"], "engine_options": options}
    with np.load(split.path) as arrays:
        recipe = json.loads(str(arrays["meta"].reshape(-1)[0]))["recipe"]
        assert recipe["extraction"] == recorded


def test_a_source_that_is_not_there_or_of_two_kinds_is_said(make_tree, write_video, tmp_path):
    with pytest.raises(SourceError, match=r"absent\.mp4' cannot be read: No such file"):
        list(clips_like(tmp_path / "absent.mp4", "holistic-143", {}))
    root = make_tree({"": 1})
    write_video(root / "b.mp4", 3)
    with pytest.raises(SourceError, match="holds both 1 video and 1 picture; extract one"):
        list(clips_like(root, "holistic-543", HOW))


def test_clips_are_called_as_extract_calls_them_and_a_bad_one_does_not_end_the_others(
    tmp_path, write_video
):
    for name in ("stop/a.mp4", "go/a.mp4", "c.mp4"):
        write_video(tmp_path / "videos" / name, 3)
    (tmp_path / "videos" / "bad.mp4").write_bytes(b"")
    found = list(clips_like(tmp_path / "videos", "holistic-543", HOW))
    assert [clip.clip_id for clip, _ in found if clip is not None] == ["c", "go/a", "stop/a"]
    assert [errors[0].reason for clip, errors in found if clip is None] == ["empty file"]
    (tmp_path / "upload").write_bytes((tmp_path / "videos" / "c.mp4").read_bytes())
    for file, name in (("videos/c.mp4", "c"), ("upload", "upload")):
        ((clip, _),) = clips_like(tmp_path / file, "holistic-543", HOW)
        assert (clip.clip_id, len(clip)) == (name, 3)
    with pytest.raises(DecodeError, match="empty file"):
        list(clips_like(tmp_path / "videos" / "bad.mp4", "holistic-543", HOW))
    bad = tmp_path / "videos" / "bad.mp4"
    ((clip, _),) = clips_like(bad, "holistic-543", HOW, is_alone=False)
    assert clip is None, "one of several sources does not end the others"


def test_new_clips_are_resized_as_those_of_the_models_data_were(make_tree):
    root, how = make_tree({"a": 2}), {**HOW["extraction"], "resize": "32x8"}
    ((clip, _),) = clips_like(root / "a", "holistic-543", {"extraction": how})
    assert clip.sizes_wh.tolist() == [[32, 8]] * 2
    with pytest.raises(ConfigError, match="resize: expected"):
        list(clips_like(root / "a", "holistic-543", {"extraction": {**how, "resize": "nothing"}}))
