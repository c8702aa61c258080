"""`train()` on video: a list, folders of frames, packs; the same modes and files as keypoints."""

import json
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from cli_runner import call
from made_up_people import make_person
from small_sets import QUIET, WAYS, refused, write_bar, write_bars

from posemill import predict
from posemill.errors import ConfigError, PosemillError, SourceError, TrainingError
from posemill.training.config.kinds import kind_of
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.batches import Draw
from posemill.training.front import train
from posemill.training.launch.leave_out import count_groups
from posemill.training.record.checkpoints import CheckpointFolder
from posemill.training.runs.inference import evaluate, load_model
from posemill.training.tasks.video_kind import VideoKind
from posemill.training.tasks.workload import build_workload


@pytest.fixture(scope="session")
def bars(tmp_path_factory):
    return write_bars(tmp_path_factory.mktemp("bars"), 12, 4)


@pytest.fixture
def own(bars, tmp_path):
    """A copy of the list and its videos that a test may spoil."""
    return Path(shutil.copytree(bars.parent, tmp_path / "own")) / bars.name


@pytest.fixture
def video(bars, tmp_path):
    """Return a function that gives the fields of a quick, quiet training on video."""

    def make(**changes):
        fields = {
            "data": str(bars), "model_options": {"width": 0.25, "dropout": 0.0},
            "video_sampling": "segments:3", "video_size": 32, "epochs": 2, "batch_size": 6,
            "eval_every": 1, "save_every": 1, "log_every": 1, "out": str(tmp_path / "run"),
        }  # fmt: skip
        return QUIET | fields | changes

    return make


def weights_of(run):
    return CheckpointFolder(Path(run) / "checkpoints").load("last").weights


def rewrite(path, change):
    path.write_text(change(path.read_text()))


def test_a_path_is_video_or_keypoints_by_what_lies_there(
    bars, packed, pictures, clips_folder, tmp_path
):
    found = [kind_of(str(path)) for path in (bars, bars.parent, bars.parent / "clip0.mp4", packed,
                                             packed / "index.csv", pictures)]  # fmt: skip
    assert found == ["video"] * 6
    (tmp_path / "points.csv").write_text("a,0.1,0.2\nb,0.3,0.4\n")
    others = (clips_folder, clips_folder / "train_keypoints.npz", tmp_path / "points.csv",
              clips_folder / "labels.csv", "nowhere", "", "x_{split}.npz")  # fmt: skip
    assert {kind_of(str(path)) for path in others} == {"keypoints"}


def test_a_list_is_trained_on_scored_and_predicted(video, bars):
    result = train(video(epochs=8, lr=0.01, batch_size=4))
    assert result.scores["dev"]["accuracy"] >= 0.75, "which way a bar moves is in time alone"
    scores = evaluate(result, split="dev")
    assert scores["accuracy"] == result.scores["dev"]["accuracy"]
    assert scores["num_clips"] == 4
    assert evaluate(result, split="train")["num_clips"] == 12
    assert not load_model(result).training
    one, *others = predict(result, [bars.parent / "clip12.mp4", bars])
    assert one.clip_id == "clip12"
    assert sum(chance for _, chance in one.top) == pytest.approx(1, abs=1e-5)
    assert {entry.clip_id for entry in others} == {f"clip{number}" for number in range(16)}
    assert (one.clip_id, one.label) == (others[12].clip_id, others[12].label)
    # In another place of a batch: the processor decides on the last bits.
    assert dict(one.top) == pytest.approx(dict(others[12].top), abs=1e-5)
    says = [entry.label == WAYS[number % 2] for number, entry in enumerate(others[12:])]
    assert sum(says) / 4 == scores["accuracy"]


def test_folders_and_packs_of_frames_give_the_weights_that_they_give_alike(
    video, pictures, packed, tmp_path
):
    runs = [video(data=str(path), out=str(tmp_path / f"{path.name}_run"), epochs=1)
            for path in (pictures, packed)]  # fmt: skip
    for fields in runs:
        assert train(fields).summary["steps"] == 1
    first, second = (weights_of(fields["out"]) for fields in runs)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_clips_are_divided_as_keypoints_are_and_those_of_the_training_augmented(video, own):
    rewrite(own, lambda text: text.replace(",dev,", ",train,"))
    workload = build_workload(TrainConfig(**video(data=str(own))))
    assert (len(workload.train), len(workload.val)) == (14, 2), "a share of every class"
    assert "2 of 16 training clips are set aside" in workload.notes[0]
    augment = workload.train.video.augment
    assert (augment.mirror, augment.scale) == (0.0, (0.5, 1.0))
    assert workload.val[Draw(0)].inputs[2].shape == (1, 0)
    folds = build_workload(TrainConfig(**video(data=str(own), folds=4, fold=1)))
    assert (len(folds.train), [len(split) for split in folds.tests.values()]) == (12, [4])
    day = build_workload(TrainConfig(**video(data=str(own), leave_out="recorded_at=day1")))
    assert (len(day.train), [len(split) for split in day.tests.values()]) == (8, [8])


def test_a_column_of_the_list_says_what_is_left_out(video):
    config = TrainConfig(**video(leave_out="recorded_at"))
    rows = VideoKind().read_rows(config)
    counts = [tuple(row.values()) for row in count_groups(rows, "classify")]
    assert counts == [("day0", 8, 8), ("day1", 8, 8)]
    config = TrainConfig(**video(leave_out="signer"))
    with pytest.raises(TrainingError, match="16 of 16 clips have no 'signer'"):
        VideoKind().read_rows(config)


def test_a_clip_that_breaks_in_the_third_epoch_is_replaced_counted_and_told(video, own, caplog):
    fields = video(data=str(own), epochs=4)
    train({**fields, "max_steps": 4})
    (own.parent / "clip3.mp4").write_bytes(b"not a video any more")
    (own.parent / "clip13.mp4").write_bytes(b"nor this")
    result = train({**fields, "resume": True})
    assert "clip 'clip3' is replaced by another of its label" in caplog.text
    assert result.summary["steps"] == 8
    told = [note for note in result.summary["notes"] if "could not be read" in note]
    assert any("1 clip could not be read, 2 times" in note and "clip3" in note for note in told)
    assert any("left out" in note and "clip13" in note for note in told)
    for workers in (0, 1):  # in the same words from a loader process, without its stack
        given = {"video_on_error": "raise", "workers": workers, "out": f"{fields['out']}{workers}"}
        with pytest.raises(PosemillError, match=r"\A[^\n]*clip3\.mp4[^\n]*\Z"):
            train(video(data=str(own), **given))


def test_a_file_that_is_not_there_and_a_class_that_dev_does_not_have_are_said(video, own):
    (own.parent / "clip5.mp4").unlink()
    refused(video(data=str(own), video_on_error="raise"), SourceError, "clip5.mp4 is not there")
    rewrite(own, lambda text: text.replace("dev,rises", "dev,falls"))
    assert build_workload(TrainConfig(**video(data=str(own)))).notes == (
        f"1 of 16 clips of {own} are not there and are left out, the first should be "
        f"{own.parent / 'clip5.mp4'}",
        "dev has no clip of 1 class (rises): its scores say nothing of them",
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text + "\ngone.mp4,train,waves,day0\nlost.mp4,dev,waves,day1\n",
         r"label 'waves' of .*videos.csv has no clip: none of its 2 files.*gone.mp4"),
        (lambda text: text.replace("clip13.mp4,dev,rises", "clip13.mp4,dev,jumps"),
         "label 'jumps' of dev clip 'clip13' is not among"),
        (lambda text: text + "\nclip0.mp4,train,rises,day0\n",
         r"clip0\.mp4 stands under two labels in .*videos\.csv, 'falls' and 'rises': no"),
    ],
)  # fmt: skip
def test_labels_that_cannot_be_learned_are_refused(video, own, change, message):
    rewrite(own, change)
    refused(video(data=str(own)), TrainingError, message)


def test_clips_of_one_frame_and_of_several_shapes_are_trained_on(video, own, packed):
    write_bar(own.parent / "clip0.mp4", "falls", 0, num_frames=1)
    writer = cv2.VideoWriter(
        str(own.parent / "clip1.mp4"), cv2.VideoWriter_fourcc(*"mp4v"), 10, (40, 20)
    )
    for _ in range(3):
        writer.write(np.zeros((20, 40, 3), np.uint8))
    writer.release()
    (note,) = train(video(data=str(own), epochs=1)).summary["notes"]
    assert note.startswith("4 of 4 dev clips are of a recorded_at that training clips are of")
    notes = build_workload(
        TrainConfig(**video(data=str(packed), video_sampling="uniform:20"))
    ).notes
    assert notes == ("9 clips have fewer frames than uniform:20 takes: some of theirs are shown "
                     "more than once",)  # fmt: skip


def test_models_of_keypoints_are_refused_and_the_other_way_round(video, settings):
    refused(video(model="mlp"), ConfigError, "model mlp takes keypoints, and .* is video; .* tsm")
    refused(settings(model="tsn", model_options={}), ConfigError,
            "model tsn takes video, and .* is keypoints; it takes mlp")  # fmt: skip
    refused(video(video_sampling="every:2"), ConfigError, "video_sampling: .*every:2")


def test_a_mirrored_clip_of_a_side_needs_its_other_label(video, packed):
    fields = video(data=str(packed), video_flip=0.5)
    refused(fields, TrainingError, "mirrored, 'left_swipe' looks like 'right_swipe'")
    sides = {"left_swipe": "right_swipe"}
    workload = build_workload(TrainConfig(**fields, video_flip_labels=sides))
    assert workload.class_names == ("stop", "left_swipe", "right_swipe")
    batches = workload.train
    rows = [(batches.video.at_epoch(0, epoch)["view"][4], batches[Draw(0, epoch)].targets)
            for epoch in range(8)]  # fmt: skip
    assert {(int(is_mirrored), int(target)) for is_mirrored, target in rows} == {(0, 1), (1, 2)}


def test_a_label_without_a_readable_clip_is_named_and_unread_clips_are_not_counted(video, own):
    added = ["bad1.mp4,train,wave,day0", "bad2.mp4,train,wave,day0", "bad3.mp4,dev,falls,day0"]
    for line in added:
        (own.parent / line.partition(",")[0]).write_bytes(b"no video")
    rewrite(own, lambda text: "\n".join([text, *added]))
    result = train(video(data=str(own), epochs=1))
    said = "no clip of label 'wave' could be read: nothing was learned, or scored, of it"
    assert said in result.summary["notes"]
    found = call("evaluate", result.out, "--split", "dev", "--json")
    assert found.exit_code == 1, "some could not be read"
    scores = json.loads(found.stdout)
    assert (scores["num_clips"], scores["num_unreadable"]) == (4, 1)


def test_a_model_of_video_is_scored_as_in_training_and_takes_no_keypoints(video, bars, tmp_path):
    result = train(video(epochs=1, eval_scales=[0.5, 1.0]))
    scores = evaluate(result, split="dev")
    assert scores["loss"] == pytest.approx(result.scores["dev"]["loss"], rel=1e-6)
    assert load_model(result).eval_scales == ()  # of a model by itself nobody has asked for several
    with pytest.raises(ConfigError, match="expected paths of videos, got a PoseClip"):
        predict(result, make_person(2, skeleton_name="coco-17"))
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    with pytest.raises(PosemillError, match=r"broken\.mp4"):
        predict(result, tmp_path / "broken.mp4")
    with pytest.warns(UserWarning, match=r"broken\.mp4"):
        found = predict(result, [bars.parent / "clip1.mp4", tmp_path / "broken.mp4"])
    assert [entry.clip_id for entry in found] == ["clip1"]
    words = ("predict", result.out, bars.parent / "clip1.mp4", tmp_path / "broken.mp4")
    assert call(*words).exit_code == 1, "some could not be read"
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(3):
        cv2.imwrite(str(folder / f"{number}.png"), np.zeros((20, 20, 3), np.uint8))
    assert [entry.clip_id for entry in predict(result, folder)] == ["pictures"]


def test_glosses_of_video_are_learned_by_ctc(video, own):
    rewrite(own, lambda text: text.replace("falls", "down up").replace("rises", "up down"))
    result = train(video(data=str(own), task="ctc", video_sampling="uniform:6", epochs=1))
    assert 0 <= result.scores["dev"]["wer"] <= 3
    assert json.loads((result.out / "run.json").read_text())["class_names"][2:] == ["down", "up"]
    fields = video(data=str(own), task="ctc", video_sampling="uniform:1")
    refused({**fields, "out": fields["out"] + "2"}, TrainingError,
            "12 of 12 train clips are shorter than their glosses")  # fmt: skip
