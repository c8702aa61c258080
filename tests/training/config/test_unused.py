"""Settings that were given and change nothing are named, with the reason."""

import pytest

from posemill.messages import Flags, render
from posemill.training.config.resolve import resolve_config
from posemill.training.config.train_config import TrainConfig
from posemill.training.config.unused import unused_settings

DEV, NO_DEV = {"has_dev": True}, {"has_dev": False}
ASKED = {"threads": 2, "processes": 2, "prefetch_factor": 4, "pin_memory": True}
SINGLE = ASKED | {"parallel": "single", "threads": 1, "processes": 1, "workers": 0}
THREADS = SINGLE | {"parallel": "multi_thread", "threads": 2}
RANKS = ASKED | {"parallel": "multi_process", "workers": 1}


@pytest.mark.parametrize(
    ("settings", "options", "unused"),
    [
        ({}, NO_DEV, []),  # nobody gave one
        ({"patience": 3, "momentum": 0.5, "fold": 2, "csv_dims": 3, "processes": 1,
          "beam_width": 5, "parallel": "single", "label_smoothing": 0.2, "final_lr": 0.1}, NO_DEV,
         ["--momentum 0.5: optimizer adamw has none",
          "--beam-width 5: task classify has no glosses",
          "--fold 2: folds is 0",
          "--csv-dims 3: the data is not a CSV",
          "--patience 3: there is no dev split to stop by"]),
        ({"patience": 3, "momentum": 0.5, "fold": 2, "csv_dims": 3, "processes": 1,
          "beam_width": 5, "final_lr": 0.1, "optimizer": "sgd", "folds": 3, "data": "x.csv",
          "parallel": "multi_process", "task": "ctc", "ctc_decoder": "beam"}, DEV, []),
        # The schedule, the loss and the cache have their own.
        ({"scheduler": "constant", "final_lr": 0.5, "step_epochs": [3.0], "step_gamma": 0.5,
          "task": "ctc", "label_smoothing": 0.2, "beam_width": 3, "cache": "none",
          "cache_folder": "there"}, DEV,
         ["--step-epochs [3.0]: scheduler is constant",
          "--step-gamma 0.5: scheduler is constant",
          "--final-lr 0.5: scheduler is constant",
          "--label-smoothing 0.2: task ctc has no use for it",
          "--beam-width 3: ctc_decoder is greedy",
          "--cache-folder there: cache is none"]),
        ({"scheduler": "step", "step_epochs": [3.0], "step_gamma": 0.5, "final_lr": 0.5,
          "processes": 1, "parallel": "multi_thread"}, DEV,
         ["--final-lr 0.5: scheduler is step"]),
        ({"ctc_decoder": "beam", "short_clips": "drop", "csv_frames": 2}, DEV,
         ["--ctc-decoder beam: task classify has no glosses",
          "--short-clips drop: task classify has no glosses",
          "--csv-frames 2: the data is not a CSV"]),
        # A model of one's own needs no settings of data and model.
        ({"data": "somewhere", "model": "mlp", "augment_rotate": 5.0, "lr": 0.1},
         DEV | {"is_own": True},
         [f"{flag}: fit() is given its data and its model"
          for flag in ("--data somewhere", "--model mlp", "--augment-rotate 5.0")]),
        # What the chosen mode and the machine do not use.
        (ASKED, DEV | {"planned": SINGLE},
         ["--processes 2: parallel is single; --parallel multi_process takes them",
          "--threads 2: parallel is single; --parallel multi_thread takes them",
          "--prefetch-factor 4: there is no loader process",
          "--pin-memory: there is no GPU"]),
        (ASKED, DEV | {"planned": THREADS, "has_gpu": True},
         ["--processes 2: parallel is multi_thread; --parallel multi_process takes them"]),
        (ASKED, DEV | {"planned": RANKS, "has_gpu": True}, []),
        # Another kind of data; features of video may wait in the cache.
        ({"data_kind": "video", "cache": "hdf5", "augment_rotate": 3.0}, DEV,
         ["--augment-rotate 3.0: the data is video",
          "--cache hdf5: decoded frames are kept on the disk, as mmap"]),
        ({"data_kind": "video", "cache": "hdf5", "video_precompute": 1}, DEV, []),
        ({"data_kind": "keypoints", "video_size": 64}, DEV,
         ["--video-size 64: the data is keypoints"]),
        ({"data_kind": "two_streams", "video_size": 64, "augment_rotate": 3.0}, DEV, []),
    ],
)  # fmt: skip
def test_what_was_given_and_has_no_effect_is_named_with_its_reason(settings, options, unused):
    if planned := options.get("planned"):
        options = options | {"planned": TrainConfig(**planned), "typed": set(ASKED)}
    notes = unused_settings(TrainConfig(**settings), **options)
    shown = [render(note, flags=Flags()).replace(" has no effect", "") for note in notes]
    assert [line.replace("'[", "[").replace("]'", "]") for line in shown] == unused


def test_the_usual_value_that_was_given_is_no_wish():
    assert unused_settings(resolve_config(None, {"patience": 0}).config, has_dev=False) == []
