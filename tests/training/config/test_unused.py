"""Settings that were given and change nothing are named, with the reason."""

from __future__ import annotations

from typing import Any

from posemill.messages import Flags, render
from posemill.training.config.resolve import resolve_config
from posemill.training.config.train_config import TrainConfig
from posemill.training.config.unused import unused_settings as find_unused


def unused_settings(*arguments: Any, **options: Any) -> list[str]:
    """What a shell shows of the notes; lists without their quotes."""
    notes = [render(note, flags=Flags()) for note in find_unused(*arguments, **options)]
    return [note.replace("'[", "[").replace("]'", "]") for note in notes]


def test_a_setting_that_was_given_and_has_no_effect_is_named_with_its_reason():
    config = TrainConfig(patience=3, momentum=0.5, fold=2, csv_dims=3, processes=1, beam_width=5,
                         parallel="single", label_smoothing=0.2, final_lr=0.1)  # fmt: skip
    assert unused_settings(config, has_dev=False) == [
        "--momentum 0.5 has no effect: optimizer adamw has none",
        "--beam-width 5 has no effect: task classify has no glosses",
        "--fold 2 has no effect: folds is 0",
        "--csv-dims 3 has no effect: the data is not a CSV",
        "--processes 1 has no effect: parallel is single; --parallel multi_process takes them",
        "--patience 3 has no effect: there is no dev split to stop by",
    ]
    used = config.replace(optimizer="sgd", folds=3, data="x.csv", parallel="multi_process",
                          task="ctc", ctc_decoder="beam", label_smoothing=0.1)  # fmt: skip
    assert unused_settings(used, has_dev=True) == []
    assert unused_settings(TrainConfig(), has_dev=False) == [], "nobody gave one"
    assert unused_settings(resolve_config(None, {"patience": 0}).config, has_dev=False) == []


def test_the_schedule_the_loss_and_the_cache_have_their_own():
    config = TrainConfig(scheduler="constant", final_lr=0.5, step_epochs=[3.0], step_gamma=0.5,
                         task="ctc", label_smoothing=0.2, beam_width=3, cache="none",
                         cache_folder="there")  # fmt: skip
    said = unused_settings(config, has_dev=True)
    assert said == [
        "--step-epochs [3.0] has no effect: scheduler is constant",
        "--step-gamma 0.5 has no effect: scheduler is constant",
        "--final-lr 0.5 has no effect: scheduler is constant",
        "--label-smoothing 0.2 has no effect: task ctc has no use for it",
        "--beam-width 3 has no effect: ctc_decoder is greedy",
        "--cache-folder there has no effect: cache is none",
    ]


def test_every_course_and_mode_has_settings_it_does_not_use():
    config = TrainConfig(scheduler="step", step_epochs=[3.0], step_gamma=0.5, final_lr=0.5,
                         processes=1, parallel="multi_thread")  # fmt: skip
    assert unused_settings(config, has_dev=True) == [
        "--final-lr 0.5 has no effect: scheduler is step",
        "--processes 1 has no effect: parallel is multi_thread; --parallel multi_process takes "
        "them",
    ]
    config = TrainConfig(ctc_decoder="beam", short_clips="drop", csv_frames=2)
    assert unused_settings(config, has_dev=True) == [
        "--ctc-decoder beam has no effect: task classify has no glosses",
        "--short-clips drop has no effect: task classify has no glosses",
        "--csv-frames 2 has no effect: the data is not a CSV",
    ]


def test_a_model_of_ones_own_needs_no_settings_of_data_and_model():
    config = TrainConfig(data="somewhere", model="mlp", augment_rotate=5.0, lr=0.1)
    assert unused_settings(config, has_dev=True, is_own=True) == [
        "--data somewhere has no effect: fit() is given its data and its model",
        "--model mlp has no effect: fit() is given its data and its model",
        "--augment-rotate 5.0 has no effect: fit() is given its data and its model",
    ]


def test_what_the_chosen_mode_and_the_machine_do_not_use_is_named():
    config = TrainConfig(threads=2, processes=2, prefetch_factor=4, pin_memory=True)
    typed = {"threads", "processes", "prefetch_factor", "pin_memory"}
    planned = config.replace(parallel="single", threads=1, processes=1, workers=0)
    said = unused_settings(config, has_dev=True, planned=planned, typed=typed)
    assert said == [
        "--processes 2 has no effect: parallel is single; --parallel multi_process takes them",
        "--threads 2 has no effect: parallel is single; --parallel multi_thread takes them",
        "--prefetch-factor 4 has no effect: there is no loader process",
        "--pin-memory has no effect: there is no GPU",
    ]
    threads = planned.replace(parallel="multi_thread", threads=2)
    said = unused_settings(config, has_dev=True, planned=threads, typed=typed, has_gpu=True)
    assert [line.split()[0] for line in said] == ["--processes"]
    ranks = config.replace(parallel="multi_process", workers=1)
    assert unused_settings(config, has_dev=True, planned=ranks, typed=typed, has_gpu=True) == []


def test_settings_of_another_kind_of_data_are_named():
    config = TrainConfig(data_kind="video", cache="hdf5", augment_rotate=3.0)
    assert unused_settings(config, has_dev=True) == [
        "--augment-rotate 3.0 has no effect: the data is video",
        "--cache hdf5 has no effect: decoded frames are kept on the disk, as mmap",
    ]
    kept = config.replace(video_precompute=1, augment_rotate=None)  # features may wait there
    assert unused_settings(kept, has_dev=True) == []
    config = TrainConfig(data_kind="keypoints", video_size=64)
    assert unused_settings(config, has_dev=True) == [
        "--video-size 64 has no effect: the data is keypoints"
    ]
    both = TrainConfig(data_kind="two_streams", video_size=64, augment_rotate=3.0)
    assert unused_settings(both, has_dev=True) == []
