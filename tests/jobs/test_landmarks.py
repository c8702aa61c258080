"""Landmarks of one source in memory: rows in step with files, and files that cannot be written."""

from types import SimpleNamespace

import numpy as np
import pytest

from posemill.errors import ConfigError, DecodeError, SourceError
from posemill.jobs import landmarks
from posemill.jobs.landmarks import choose_mode, clips_like, count_new_frames, estimate_landmarks
from posemill.sources import clip_at


@pytest.fixture
def folder(make_tree):
    return make_tree({"a": 10}) / "a"


@pytest.fixture
def asked(monkeypatch):
    """How every engine was opened, and the size of each batch it got, with a state or without."""
    seen = SimpleNamespace(options=[], batches=[], num_closed=0)
    really_open = landmarks.open_estimator

    def open_noting(name, **options):
        estimator = really_open(name, **options)
        seen.options.append((name, options))
        really_estimate = estimator.estimate

        def estimate(frames, states=None):
            seen.batches.append((len(frames), states is not None))
            return really_estimate(frames, states)

        def close():
            seen.num_closed += 1

        monkeypatch.setattr(estimator, "estimate", estimate)
        monkeypatch.setattr(estimator, "close", close)
        return estimator

    monkeypatch.setattr(landmarks, "open_estimator", open_noting)
    return seen


def test_pictures_come_in_batches_of_eight_and_one_that_cannot_be_read_is_a_row(folder, asked):
    steps = []
    clip, errors = estimate_landmarks(
        folder, mode="image", engine="fake", on_frame=lambda: steps.append(1)
    )
    assert asked.batches == [(8, False), (2, False)]
    assert asked.options == [("fake", {"device": "cpu", "threads": 1})]
    assert asked.num_closed == 1
    assert (len(steps), errors) == (10, [])
    assert (clip.clip_id, clip.skeleton_name, clip.points.shape) == (
        "a", "holistic-543", (10, 543, 3),
    )  # fmt: skip
    assert clip.image_paths == tuple(str(folder / f"{index:04d}.png") for index in range(10))
    assert clip.sizes_wh.tolist() == [[16, 12]] * 10
    (folder / "0003.png").write_bytes(b"")
    clip, (error,) = estimate_landmarks(
        folder, mode="image", engine="fake", on_frame=lambda: steps.append(1)
    )
    assert asked.batches[2:] == [(7, False), (2, False)]
    assert error.reason == "empty file"
    assert (len(clip), len(clip.image_paths), len(steps)) == (10, 10, 20)
    assert np.isnan(clip.points).all(axis=(1, 2)).tolist() == [index == 3 for index in range(10)]
    assert (clip.scores[3] == 0).all()
    assert clip.sizes_wh[3].tolist() == [0, 0]


@pytest.mark.parametrize("mode", ["video", "auto"])
def test_frames_that_are_tracked_come_one_by_one(folder, asked, mode):
    options = {"seconds_per_frame": 0.0}
    estimate_landmarks(folder, mode=mode, engine="fake", engine_options=options, threads=3)
    assert asked.batches == [(1, True)] * 10
    assert asked.options == [("fake", {"device": "cpu", "threads": 3, **options})]


def test_a_video_has_no_paths_and_ends_at_its_first_damage(tmp_path, write_video, asked):
    write_video(tmp_path / "a.mp4", 3)
    clip, errors = estimate_landmarks(tmp_path / "a.mp4", engine="fake")
    assert (len(clip), clip.image_paths, errors) == (3, (), [])
    assert asked.batches == [(1, True)] * 3
    write_video(tmp_path / "cut.avi", 300, size=(64, 48))
    content = (tmp_path / "cut.avi").read_bytes()
    (tmp_path / "cut.avi").write_bytes(content[: len(content) // 2])
    clip, errors = estimate_landmarks(tmp_path / "cut.avi", engine="fake", mode="image")
    assert (50 < len(clip) < 300, len(errors)) == (True, 1)
    assert np.isfinite(clip.points).any(axis=(1, 2)).all()


def test_of_a_list_the_parts_of_videos_are_looked_at(tmp_path, write_video, asked):
    write_video(tmp_path / "v.mp4", 8)
    (tmp_path / "l.csv").write_text("path,start_seconds,end_seconds\nv.mp4,0,0.1\nv.mp4,,\n")
    recipe = {"extraction": {"engine": "fake"}}
    found = [clip for clip, _ in clips_like(tmp_path / "l.csv", "holistic-543", recipe)]
    # 3 of 25 a second, and all.
    assert [(clip.clip_id, len(clip)) for clip in found] == [("v", 8), ("v@0-0.1", 3)]
    assert count_new_frames(tmp_path / "l.csv", recipe) == 11


def test_an_engine_is_closed_whatever_happens(folder, tmp_path, asked, monkeypatch):
    (tmp_path / "a.mp4").write_bytes(b"")
    with pytest.raises(DecodeError, match="empty file"):
        estimate_landmarks(tmp_path / "a.mp4", engine="fake")
    with pytest.raises(ZeroDivisionError):
        estimate_landmarks(folder, engine="fake", on_frame=lambda: 1 / 0)
    monkeypatch.setattr(landmarks, "read_clip", lambda *_, **__: iter(()))
    with pytest.raises(SourceError, match=f"^{folder}: no frames in it$"):
        estimate_landmarks(folder, engine="fake")
    assert asked.num_closed == 3


def test_a_mode_is_chosen_by_evidence(folder, tmp_path, write_video, paint, monkeypatch):
    write_video(tmp_path / "a.mp4", 1)
    assert choose_mode(tmp_path / "a.mp4", "fake") == ("video", "a video")
    assert choose_mode(folder / "0000.png", "fake") == ("image", "one picture")
    assert choose_mode(folder, "fake") == (
        "video", "numbered pictures of one size, neighbours alike",
    )  # fmt: skip
    for index in range(10):
        paint(folder / f"{index:04d}.png", (255 * (index % 2),) * 3)
    assert choose_mode(folder, "fake") == ("image", "neighbours are not alike")
    with pytest.raises(ConfigError, match="engine 'fake' has no sideways mode"):
        estimate_landmarks(folder, mode="sideways", engine="fake")
    monkeypatch.setattr(landmarks, "engine_info", lambda _: SimpleNamespace(modes=("image",)))
    assert choose_mode(tmp_path / "a.mp4", "still") == ("image", "engine still has no other mode")


def test_a_path_is_a_folder_a_picture_or_a_video(folder, tmp_path):
    (tmp_path / "b.MP4").touch()
    for path, kind in {folder: "frames", folder / "0000.png": "pictures",
                       tmp_path / "b.MP4": "video"}.items():  # fmt: skip
        clip = clip_at(path)
        assert (clip.clip_id, clip.path, clip.kind) == (path.name, str(path), kind)
    said = f"^{tmp_path / 'gone'}: no such file or folder; expected pictures or a video$"
    with pytest.raises(SourceError, match=said):
        clip_at(tmp_path / "gone")
