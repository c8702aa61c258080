"""`extract --fps` and `--stride`: which frames, their numbers, and what else follows from it."""

from fractions import Fraction

import av
import cv2
import numpy as np
import pytest

from posemill.config import FramesConfig
from posemill.decoders import open_video
from posemill.errors import ConfigError, RunError
from posemill.jobs.extract.run import extract
from posemill.jobs.extract.status import read_status
from posemill.jobs.frames import write_frames
from posemill.jobs.landmarks import clips_like
from posemill.runs.reader import open_run


def clip_of(summary):
    return next(open_run(summary.folder).clips())


def write_uneven(path, milliseconds):
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = 32, 24, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1000)
        for number, time in enumerate(milliseconds):
            pixels = np.full((24, 32, 3), 30 * number, np.uint8)
            frame = av.VideoFrame.from_ndarray(pixels, "rgb24")
            frame.pts, frame.time_base = time, Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


@pytest.mark.parametrize(
    ("changes", "numbers", "fps"),
    [
        ({"stride": 4}, [*range(0, 30, 4)], 6.25),
        ({"fps": 5}, [*range(0, 30, 5)], 5.0),
        ({"fps": 10}, [0, 2, 5, 7, 10, 12, 15, 17, 20, 22, 25, 27], 10.0),
        ({"fps": 50}, [*range(30)], 25.0),
    ],
)
def test_the_tracker_sees_the_chosen_frames_alone_and_they_keep_their_numbers(
    changes, numbers, fps, config_for, same_runs, tmp_path, write_video
):
    write_video(tmp_path / "videos" / "a.mp4", 30)
    summary = extract(config_for(tmp_path / "videos", task_frames=3, **changes))
    clip = clip_of(summary)
    assert (clip.frame_indices.tolist(), clip.fps) == (numbers, fps)
    (counts,) = summary.counts
    assert (counts.frames_known, counts.frames_out) == (len(numbers),) * 2
    assert counts.frames_failed == 0
    snapshot = read_status(summary.folder)
    assert (snapshot.frames_done, snapshot.frames_known) == (len(numbers),) * 2
    with open_video(tmp_path / "videos" / "a.mp4") as video:
        frames = list(video)
    (tmp_path / "chosen" / "a").mkdir(parents=True)
    for position, number in enumerate(numbers):
        picture = np.ascontiguousarray(frames[number][..., ::-1])
        assert cv2.imwrite(str(tmp_path / "chosen" / "a" / f"{position:03d}.png"), picture)
    alone = clip_of(extract(config_for(tmp_path / "chosen", "alone", mode="video")))
    np.testing.assert_array_equal(clip.points, alone.points)
    # In one piece or in many it is the same run.
    extract(config_for(tmp_path / "videos", "whole", task_frames=500, **changes))
    same_runs(summary.folder, tmp_path / "whole")


def test_a_rate_goes_by_the_times_of_the_frames(config_for, tmp_path):
    write_uneven(tmp_path / "uneven.mkv", (0, 40, 80, 120, 1000, 2000, 2040))
    clip = clip_of(extract(config_for(tmp_path / "uneven.mkv", fps=1)))
    assert clip.frame_indices.tolist() == [0, 4, 5]


def test_it_is_recorded_and_a_run_goes_on_with_the_same_alone(config_for, tmp_path, write_video):
    write_video(tmp_path / "videos" / "a.mp4", 12)
    folder = extract(config_for(tmp_path / "videos", stride=3)).folder
    manifest = open_run(folder).manifest
    assert (manifest.options["stride"], manifest.options["fps"]) == (3, None)
    assert manifest.extraction["stride"] == 3
    assert "fps" not in manifest.extraction
    assert extract(config_for(tmp_path / "videos", stride=3)).num_frames_now == 0
    with pytest.raises(RunError, match=r"stride: the run has 3, now it is none"):
        extract(config_for(tmp_path / "videos"))
    with pytest.raises(RunError, match=r"fps: the run has none, now it is 5"):
        extract(config_for(tmp_path / "videos", fps=5))


def test_a_rate_is_taken_of_pictures_whose_list_says_theirs(config_for, tmp_path, write_video):
    write_video(tmp_path / "videos" / "a.mp4", 30)
    kept = FramesConfig(tmp_path / "videos", tmp_path / "kept", executor="serial", fps=12.5)
    index = write_frames(kept).index
    assert index.read_text().splitlines()[1].endswith(",12.5,0-28/2")
    summary = extract(config_for(index, "pictures", fps=5))
    clip = clip_of(summary)
    assert (clip.frame_indices.tolist(), clip.fps) == ([0, 2, 5, 7, 10, 12], 5.0)
    assert summary.counts[0].frames_known == 6
    whole = clip_of(extract(config_for(index, "whole")))
    assert (len(whole), whole.fps) == (15, 12.5)
    with pytest.raises(ConfigError, match=r"fps needs videos: .* give the index\.csv of posemill"):
        extract(config_for(tmp_path / "kept", "folder", fps=5))
    assert not (tmp_path / "folder").exists()
    with pytest.raises(ConfigError, match=r"fps and stride both say which frames to keep"):
        config_for(index, fps=5, stride=2)


def test_a_picture_that_failed_is_named_by_its_own_number_and_can_be_tried_again(
    config_for, make_tree
):
    tree = make_tree({"a": 9})
    config = config_for(tree, stride=2, mode="image")
    broken = tree / "a" / "0004.png"
    whole = broken.read_bytes()
    broken.write_bytes(b"x")
    summary = extract(config)
    assert clip_of(summary).frame_indices.tolist() == [0, 2, 6, 8]
    (failure,) = summary.run.failures()
    assert failure.message.startswith("frame 4 of the source: ")
    assert failure.path == str(broken)
    broken.write_bytes(whole)
    clip = clip_of(extract(config.replace(retry_failed=True)))
    assert clip.frame_indices.tolist() == [0, 2, 4, 6, 8]
    assert [path[-8:-4] for path in clip.image_paths] == ["0000", "0002", "0004", "0006", "0008"]


def test_new_clips_of_a_model_are_thinned_out_as_its_data_were(
    config_for, make_tree, tmp_path, write_video, caplog
):
    write_video(tmp_path / "videos" / "a.mp4", 20)
    for changes in ({"fps": 10}, {"stride": 3}):
        run = open_run(extract(config_for(tmp_path / "videos", str(changes), **changes)).folder)
        recipe = {"extraction": run.manifest.extraction}
        ((new, _),) = clips_like(tmp_path / "videos" / "a.mp4", "holistic-543", recipe)
        expected = next(run.clips())
        assert new.frame_indices.tolist() == expected.frame_indices.tolist()
        np.testing.assert_array_equal(new.points, expected.points)
    tree = make_tree({"a": 7})
    ((new, _),) = clips_like(tree / "a", "holistic-543", recipe)
    assert new.frame_indices.tolist() == [0, 3, 6]
    recipe["extraction"] = {**recipe["extraction"], "stride": None, "fps": 10.0}
    ((new, _),) = clips_like(tree / "a", "holistic-543", recipe)
    assert len(new) == 7
    assert "a does not say how many pictures a second it has: all are taken" in caplog.text
