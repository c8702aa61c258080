"""`frames`: pictures, packs and the index, whatever the source and whatever goes wrong."""

import errno
import os
import re

import cv2
import numpy as np
import pytest

from posemill.config import ExtractConfig, FramesConfig
from posemill.decoders import open_video
from posemill.decoders.pictures import encode_picture, read_picture, resize_frame
from posemill.errors import ConfigError, DecodeError, RunError
from posemill.jobs import frames as frames_job
from posemill.jobs.extract.plan import unused_settings
from posemill.jobs.extract.run import extract
from posemill.jobs.extract.status import read_status
from posemill.jobs.frames import write_frames
from posemill.runs.frame_index import indices_of, picture_name, read_index
from posemill.runs.queries import read_ledger
from posemill.runs.reader import open_run
from posemill.sources import find_clips
from posemill.training.video.index import read_index as read_training_index


@pytest.fixture
def videos(tmp_path, write_video):
    root = tmp_path / "videos"
    write_video(root / "train" / "a.mp4", 30)
    write_video(root / "train" / "b.mp4", 7, size=(48, 32), seed=1)
    write_video(root / "dev" / "c.mp4", 12, seed=2)
    return root


@pytest.fixture
def config(videos, tmp_path):
    def make(out="out", **changes):
        options = {"executor": "serial", "task_frames": 8, **changes}
        return FramesConfig(videos, tmp_path / out, **options)

    return make


def frames_of(path):
    with open_video(path) as video:
        return list(video)


def pixels_of(clip):
    if clip.format == "rgb":
        shape = (clip.num_frames, clip.height, clip.width, 3)
        return list(np.memmap(clip.path, np.uint8, "r", clip.offset, shape))
    names = [picture_name(position, clip.format) for position in range(clip.num_frames)]
    return [read_picture(clip.path / name) for name in names]


def check_pixels(summary, videos, pattern):
    """Assert that all frames of all clips are what their videos hold; return the clips."""
    clips = read_index(summary.index)
    for clip in clips:
        wanted = frames_of(videos / clip.split / f"{clip.clip_id}.mp4")
        assert np.array_equal(pixels_of(clip), wanted)
    assert summary.num_bytes == sum(path.stat().st_size for path in summary.folder.rglob(pattern))
    return clips


def test_png_keeps_every_pixel_of_every_frame(config, videos):
    summary = write_frames(config(format="png"))
    assert (summary.num_frames, summary.num_clips, summary.exit_code) == (49, 3, 0)
    clips = check_pixels(summary, videos, "*.png")
    assert [(clip.split, clip.clip_id, clip.num_frames, clip.width, clip.height, clip.fps,
             clip.frame_indices) for clip in clips] == [
        ("train", "a", 30, 32, 24, 25.0, "0-29"),
        ("train", "b", 7, 48, 32, 25.0, "0-6"),
        ("dev", "c", 12, 32, 24, 25.0, "0-11"),
    ]  # fmt: skip
    assert indices_of(clips[0].frame_indices).tolist() == [*range(30)]


def test_a_pack_has_the_very_bytes(config, videos, monkeypatch):
    monkeypatch.setattr(frames_job, "PACK_BYTES", 32 * 24 * 3 * 30)
    clips = check_pixels(write_frames(config(pack=True)), videos, "*.rgb")
    assert [(clip.path.name, clip.offset) for clip in clips] == [
        ("000000.rgb", 0), ("000001.rgb", 0), ("000001.rgb", 7 * 48 * 32 * 3),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "sizes"),
    [
        ({"resize": "16x12"}, [(16, 12)] * 3),
        ({"resize": 16}, [(16, 16)] * 3),
        ({"resize": 12, "short_side": True}, [(16, 12), (18, 12), (16, 12)]),
    ],
)
@pytest.mark.parametrize("pack", [False, True])
def test_frames_are_brought_to_the_size_that_is_asked_for(config, videos, changes, sizes, pack):
    clips = read_index(write_frames(config(format="png", pack=pack, **changes)).index)
    assert [(clip.width, clip.height) for clip in clips] == sizes
    assert {frame.shape for frame in pixels_of(clips[1])} == {(*sizes[1][::-1], 3)}


@pytest.mark.parametrize("pack", [False, True])
def test_all_frames_of_a_clip_have_the_size_of_its_first_and_a_bad_one_leaves_no_gap(
    make_tree, tmp_path, pack
):
    folder = make_tree({"a": 5}) / "a"
    assert cv2.imwrite(str(folder / "0001.png"), np.full((12, 20, 3), 90, np.uint8))
    (folder / "0002.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (make_tree({"b": 1}) / "b" / "0000.png").write_bytes(b"no frame, so no place in a pack")
    made = FramesConfig(folder.parent, tmp_path / "out", format="png", pack=pack, task_frames=2,
                        executor="serial")  # fmt: skip
    summary = write_frames(made)
    (clip,) = read_index(summary.index)
    assert (clip.num_frames, indices_of(clip.frame_indices).tolist()) == (4, [0, 1, 3, 4])
    pixels = pixels_of(clip)
    assert {frame.shape for frame in pixels} == {(12, 16, 3)}
    assert np.array_equal(pixels[2], read_picture(folder / "0003.png"))
    assert summary.exit_code == 1


@pytest.mark.parametrize(
    ("changes", "numbers", "fps"),
    [
        ({"stride": 4}, [0, 4, 8, 12, 16, 20, 24, 28], 6.25),
        ({"fps": 5}, [0, 5, 10, 15, 20, 25], 5.0),
        ({"fps": 50}, [*range(30)], 25.0),
    ],
)
@pytest.mark.parametrize("pack", [False, True])
def test_fewer_frames_are_kept_and_say_which_they_were(config, videos, changes, numbers, fps, pack):
    summary = write_frames(config(format="png", pack=pack, task_frames=3, **changes))
    clip = read_index(summary.index)[0]
    assert indices_of(clip.frame_indices).tolist() == numbers
    assert (clip.num_frames, clip.fps) == (len(numbers), fps)
    wanted = frames_of(videos / "train" / "a.mp4")
    assert np.array_equal(pixels_of(clip), [wanted[number] for number in numbers])
    assert summary.exit_code == 0


def test_folders_of_pictures_are_thinned_out_too(make_tree, tmp_path):
    tree = make_tree({"train/a": 7})
    made = FramesConfig(tree, tmp_path / "out", stride=3, format="png", executor="serial")
    (clip,) = read_index(write_frames(made).index)
    assert indices_of(clip.frame_indices).tolist() == [0, 3, 6]
    assert np.array_equal(pixels_of(clip)[1], read_picture(tree / "train" / "a" / "0003.png"))
    with pytest.raises(ConfigError, match=r"fps needs videos: .* use stride"):
        write_frames(made.replace(out=tmp_path / "rate", fps=5, stride=1))
    make_tree({"train/b": 2})  # beside the one that is there
    with pytest.raises(RunError, match=r"is not the same:\n  train/b is new\nput it back.*merge"):
        write_frames(made)


def test_the_frames_are_a_source_for_extract_by_folder_and_by_index(config, tmp_path):
    folder = write_frames(config()).folder
    expected = [("train", "a", 30), ("train", "b", 7), ("dev", "c", 12)]
    for number, source in enumerate((folder, folder / "index.csv")):
        clips = find_clips(source)
        assert [(clip.split, clip.clip_id, clip.num_frames) for clip in clips] == expected
        out = tmp_path / f"run{number}"
        made = ExtractConfig(source, out, engine="fake", executor="serial")
        assert extract(made).num_frames == 49


def test_output_inside_of_the_source_is_never_taken_for_data(videos, tmp_path):
    made = FramesConfig(videos, videos / "frames", executor="serial")
    assert write_frames(made).num_clips == 3
    assert write_frames(made.replace(out=videos / "again", layout="auto")).num_clips == 3


def test_a_label_and_further_columns_of_a_list_are_in_the_index(videos, tmp_path):
    table = videos / "list.csv"
    table.write_text("path,split,label,signer\ntrain/a.mp4,fold1,HELLO,7\ndev/c.mp4,fold2,YOU,8\n")
    clips = read_index(write_frames(FramesConfig(table, tmp_path / "o", executor="serial")).index)
    assert [(clip.split, clip.label, dict(clip.extra)) for clip in clips] == [
        ("fold1", "HELLO", {"signer": "7"}), ("fold2", "YOU", {"signer": "8"}),
    ]  # fmt: skip
    assert clips[0].path == tmp_path / "o" / "fold1" / "train" / "a"
    table.write_text("path\ntrain/a.mp4\n")  # its folder is no label
    config = FramesConfig(table, tmp_path / "bare", executor="serial")
    assert [clip.label for clip in read_index(write_frames(config).index)] == [None]


def test_bad_files_are_rows_with_their_reason_and_leave_no_folder(config, videos):
    (videos / "dev" / "zero.mp4").write_bytes(b"")
    (videos / "dev" / "text.mp4").write_text("no video")
    whole = (videos / "train" / "a.mp4").read_bytes()
    (videos / "dev" / "cut.mp4").write_bytes(whole[: len(whole) // 2])
    for pack in (False, True):
        summary = write_frames(config(f"out{pack}", pack=pack))
        assert summary.exit_code == 1
        with read_ledger(summary.folder) as ledger:
            reasons = {each.clip_id: each.reason for each in ledger.failures()}
        assert reasons == {"zero": "empty file", "text": "not a video", "cut": "truncated"}
        assert [clip.clip_id for clip in read_index(summary.index)] == ["a", "b", "c"]
        assert not (summary.folder / "dev" / "zero").exists()


def test_the_same_again_has_nothing_to_do_and_other_options_are_refused(config):
    first = write_frames(config())
    before = {path: path.stat().st_mtime_ns for path in first.folder.rglob("*.jpg")}
    again = write_frames(config())
    assert (again.num_frames_now, again.num_frames, again.index.is_file()) == (0, 49, True)
    assert before == {path: path.stat().st_mtime_ns for path in first.folder.rglob("*.jpg")}
    with pytest.raises(RunError, match=r"begun with other options(.|\n)*quality: the run has 90"):
        write_frames(config(quality=80))
    with pytest.raises(RunError, match=r"was begun with 'frames', not with 'extract': go on"):
        extract(ExtractConfig(config().source, first.folder, engine="fake"))
    with pytest.raises(RunError, match=r"holds frames, not keypoints; find them with: posemill"):
        open_run(first.folder)
    assert read_status(first.folder).state == "finished"


def test_a_retry_completes_the_index_and_a_pack_without_a_place_is_said(config, videos):
    whole = (videos / "train" / "a.mp4").read_bytes()
    (videos / "train" / "a.mp4").write_bytes(b"text")
    assert [clip.clip_id for clip in read_index(write_frames(config()).index)] == ["b", "c"]
    write_frames(config("packs", pack=True))
    (videos / "train" / "a.mp4").write_bytes(whole)
    summary = write_frames(config(retry_failed=True))
    assert (summary.exit_code, len(read_index(summary.index))) == (0, 3)
    summary = write_frames(config("packs", pack=True, retry_failed=True))
    assert summary.reasons[0][:2] == ("longer than it said", 30)
    with read_ledger(summary.folder) as ledger:
        message = next(ledger.failures()).message
    assert message.startswith("the packs have room for 0 frames of this clip, as many as it said")


@pytest.mark.parametrize("pack", [False, True])
def test_a_full_disk_ends_it_with_a_sentence_and_the_same_command_continues(
    config, monkeypatch, pack
):
    name = "pwrite" if pack else "write_bytes"
    owner = os if pack else frames_job.Path
    real, count = getattr(owner, name), []

    def refuse(*args):
        count.append(1)
        if len(count) > 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, refuse)
        with pytest.raises(RunError, match=r"no room left to write to .*out .*make room and run"):
            write_frames(config(pack=pack))
    assert not (config().out / "index.csv").exists()
    assert write_frames(config(pack=pack)).num_frames == 49


def test_what_was_written_and_not_committed_is_gone_in_the_end(config, videos):
    folder = config().out / "train" / "a"
    summary = write_frames(config())
    assert len(list(folder.iterdir())) == 30
    ledger = summary.folder / "ledger.sqlite"
    ledger.unlink()  # as if nothing had been committed
    (folder / "000030.jpg").write_bytes(b"rest of a killed worker")
    (folder / "notes.txt").write_text("mine")
    write_frames(config())
    assert sorted(path.name for path in folder.iterdir())[-2:] == ["000029.jpg", "notes.txt"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"resize": "340x256", "short_side": True}, r"short_side needs one number.*340x256"),
        ({"short_side": True}, "got no size"),
        ({"fps": 5, "stride": 2}, r"fps and stride both say which frames"),
        ({"resize": "big"}, "resize: expected"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(tmp_path, settings, said):
    with pytest.raises(ConfigError, match=said):
        FramesConfig(tmp_path, tmp_path, **settings)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"pack": True, "format": "png"}, 'format="png" has no effect: a pack holds plain bytes'),
        ({"format": "png", "quality": 50}, "quality=50 has no effect: png loses nothing"),
        ({"decoder": "other"}, 'decoder="other" has no effect: there are no videos'),
    ],
)
def test_settings_without_effect_are_said(config, videos, make_tree, settings, said):
    source = make_tree({"a": 3}) if "decoder" in settings else videos
    assert unused_settings(config(**settings), find_clips(source)) == [said]


def test_clips_called_like_our_own_files_get_other_folders_and_two_never_the_same(
    videos, tmp_path, write_video
):
    table = videos / "list.csv"
    table.write_text("path,clip_id,split\ntrain/a.mp4,b,a\ndev/c.mp4,a/b,all\n")
    with pytest.raises(RunError, match=r"'b' and 'a/b' would both be written to the folder 'a/b'"):
        write_frames(FramesConfig(table, tmp_path / "o", executor="serial"))
    root = tmp_path / "odd"
    for name in ("logs", "packs"):
        write_video(root / f"{name}.mp4", 2)
    folder = write_frames(FramesConfig(root, tmp_path / "o", executor="serial")).folder
    assert {path.parent.name for path in folder.rglob("*.jpg")} == {"logs_", "packs_"}
    assert frames_job.clip_parts(find_clips(root)[0]) == ["logs_"]


def test_jpg_and_webp_are_what_opencv_writes():
    noise = np.random.default_rng(0).integers(0, 255, (12, 16, 3), np.uint8)
    photo_like = resize_frame(noise, (64, 48))
    for name, flag in (("jpg", cv2.IMWRITE_JPEG_QUALITY), ("webp", cv2.IMWRITE_WEBP_QUALITY)):
        small, large = (encode_picture(photo_like, name, quality=q) for q in (30, 95))
        assert len(small) < len(large)
        wanted = cv2.imencode(f".{name}", photo_like[..., ::-1], [flag, 30])[1].tobytes()
        assert small == wanted
    assert re.match(rb"\x89PNG", encode_picture(photo_like, "png"))
    with pytest.raises(DecodeError, match=r"70000 x 1 pixels cannot be written as jpg; make") as e:
        encode_picture(np.zeros((1, 70000, 3), np.uint8), "jpg")
    assert e.value.reason == "too large"


@pytest.mark.parametrize("pack", [False, True])
def test_labels_of_folders_are_those_a_training_on_the_folder_itself_has(
    tmp_path, write_video, pack
):
    root = tmp_path / "labelled"
    for number, name in enumerate(("train/hello/a", "train/sorry/b", "dev/hello/c", "d")):
        write_video(root / f"{name}.mp4", 4, seed=number)
    write_frames(FramesConfig(root, tmp_path / "kept", executor="serial", pack=pack))

    def labels(place):
        return {(clip.split, clip.clip_id): clip.label for clip in read_training_index(place).clips}

    assert labels(tmp_path / "kept") == labels(root)
    assert labels(root)["train", "sorry/b"] == "sorry"
    assert labels(root)["all", "d"] is None
