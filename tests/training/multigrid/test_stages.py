import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from small_sets import NO_DROPOUT, BareClips, make_set

from posemill.errors import ConfigError
from posemill.training.config.train_config import TrainConfig
from posemill.training.data.batches import Draw
from posemill.training.data.keypoint_clips import Sample
from posemill.training.front import train
from posemill.training.multigrid.schedule import Multigrid
from posemill.training.multigrid.stages import Stages, clips_of_pass
from posemill.training.record.run_folder import RunFolder


def make_clips(count=64, *, frames=16, glosses=()):
    points, mask = np.ones((frames, 2, 2), np.float32), np.ones((frames, 2), bool)
    task = "ctc" if glosses else "classify"
    target = (lambda i: np.full(glosses[i % len(glosses)], 2)) if glosses else (lambda i: i % 2)
    return make_set([Sample(points, mask, target(i)) for i in range(count)], "abc", task=task)


def grid_config(**changes):
    usual = {"epochs": 40, "batch_size": 4, "multigrid": True, "optimizer": "sgd"}
    return TrainConfig(**{**usual, **changes})


def test_without_multigrid_there_is_one_stage_and_the_usual_learning_rate():
    config = grid_config(multigrid=False)
    stages = Stages(make_clips(), config)
    assert [(s.start_epoch, s.stop_epoch, s.epoch_steps) for s in stages] == [(0, 40, 16)]
    assert stages.total_steps == 640
    # A warm-up of one epoch, then a cosine.
    falling = (1 + math.cos(math.pi * (300 - 16) / (639 - 16))) / 2
    assert [stages.learning_rate(step) for step in (0, 7, 300)] == pytest.approx(
        [0.002 / 17, 0.002 * 8 / 17, 0.002 * falling]
    )
    assert not Stages(make_clips(), config).describe()


def test_stages_have_shorter_clips_in_larger_batches():
    config = grid_config(scheduler="step", step_epochs=[20, 35], step_gamma=0.1, warmup_epochs=0)
    stages = Stages(make_clips(), config)
    found = [(s.clips.batch_factors, int(s.clips.lengths[0]), s.epoch_steps) for s in stages]
    cycle = [((4,), 4, 4), ((2,), 8, 8), ((1,), 16, 16)]
    assert found == [*cycle, *cycle, ((1,), 16, 16)]
    assert stages.num_epochs == 60
    # 16, 8 and 4 clips a step in two passes; six of 16 for each of three processes in one.
    spread = grid_config(micro_batch=2)
    assert [clips_of_pass(stage, spread, 1) for stage in [*stages][:3]] == [8, 4, 2]
    assert clips_of_pass(next(iter(stages)), spread, 3) == 6
    # 24 clips a step in two passes of at most 16, or in one of each of two processes.
    uneven = grid_config(batch_size=6, micro_batch=4)
    first = next(iter(Stages(make_clips(), uneven)))
    assert [clips_of_pass(first, uneven, number) for number in (1, 2)] == [12, 12]
    # 1.44 times fewer than 640, but for epochs that have to be whole.
    assert 640 / stages.total_steps == pytest.approx(1.44, abs=0.03)
    first = [stages.total_steps - 1, 0]
    assert [stages.learning_rate(step) for step in first] == pytest.approx(
        [0.002 * 0.1**2, 0.002 * 4]
    )
    assert next(iter(stages)).clips[Draw(3)].inputs[0].shape == (1, 4, 2, 2)


def test_the_learning_rate_warms_up_to_the_rate_at_its_end_and_follows_the_usual_course():
    stages = Stages(make_clips(), grid_config(warmup_epochs=2))
    rates = [stages.learning_rate(step) for step in range(stages.total_steps)]
    warmup = round(2 * stages.total_steps / 40)
    assert rates[:warmup] == sorted(rates[:warmup])
    assert rates[warmup] == pytest.approx(4 * 0.002)
    assert rates[0] == pytest.approx(4 * 0.002 / (warmup + 1))
    assert rates[-1] == pytest.approx(0)
    uncapped = grid_config(multigrid_options={"most_lr_factor": 2}, warmup_epochs=0)
    assert Stages(make_clips(), uncapped).learning_rate(0) == pytest.approx(2 * 0.002)


def test_the_learning_rate_of_adam_grows_with_the_root_of_the_batch():
    for optimizer in ("adam", "adamw"):
        stages = Stages(make_clips(), grid_config(optimizer=optimizer, warmup_epochs=0))
        assert stages.learning_rate(0) == pytest.approx(0.002 * 2), "four times the clips"
    assert Multigrid(239, lr_power=0.5).lr_factor(0) == pytest.approx(8**0.5)


def test_the_plan_says_shapes_batches_epochs_steps_and_what_it_saves():
    config = grid_config(scheduler="step", step_epochs=[20, 35])
    lines = Stages(make_clips(), config).describe()
    steps = Stages(make_clips(), config).total_steps
    assert lines[0] == (
        f"multigrid: {steps} steps in 60 epochs instead of 640 in 40: {640 / steps:.2f}x fewer"
    )
    assert lines[1] == (
        "multigrid: 1/4 of the frames: 16 clips a step, lr x 4, epochs 1-18, 33-46: 128 steps"
    )
    assert lines[3].startswith("multigrid: all frames: 4 clips a step, lr x 1, epochs 29-32, ")
    assert len(lines) == 4


def test_glosses_that_do_not_fit_into_few_frames_come_with_more():
    # 16 frames: a quarter has room for 4 glosses, or for 2 that are the same.
    split = make_clips(glosses=(1, 2, 2, 3))
    stages = list(Stages(split, grid_config()))
    assert [len(stage.clips) for stage in stages[:3]] == [48, 64, 64]
    lines = Stages(split, grid_config()).describe()
    assert lines[1] == (
        "multigrid: 1/4 of the frames: 16 of 64 clips are too short for their glosses and come "
        "with more frames only"
    )
    assert make_clips(glosses=(1, 4)).grid.cycle == ((0.25, 1.0), (0.5, 1.0), (1.0, 1.0))
    longer = make_clips(glosses=(1, 4, 4))
    assert longer.grid.cycle == ((0.5, 1.0), (1.0, 1.0))
    assert "multigrid: 1/4 of the frames: 42 of 64 clips are too short" in "\n".join(
        Stages(longer, grid_config()).describe()
    )


def test_clips_too_short_or_too_few_are_refused(settings):
    said = "multigrid=True needs clips of several frames that can be made shorter"
    with pytest.raises(ConfigError, match=said):
        Stages(make_clips(frames=1), grid_config())
    said = (
        "multigrid=True takes up to 4 times batch_size=8 clips in a step, more than the 28 "
        "training clips: use batch_size=7 or less, or leave it out"
    )
    with pytest.raises(ConfigError, match=said):
        train(settings(multigrid=True))
    assert not Path(settings()["out"]).exists(), "before anything is written"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"epoch_factor": "2"}, "epoch_factor: expected float, got '2'"),
        ({"epoch_factor": -1.0}, "epoch_factor: expected more than 0, got -1.0"),
        ({"most_lr_factor": True}, "most_lr_factor: expected float, got True"),
        ({"short_cycle": 1}, "short_cycle: expected bool, got 1"),
        ({"short_cycel": True}, "unknown setting 'short_cycel'; did you mean 'short_cycle'"),
    ],
)
def test_wrong_options_are_refused_at_once(options, said):
    with pytest.raises(ConfigError, match=f"multigrid_options: {said}"):
        TrainConfig(multigrid_options=options)
    assert TrainConfig(multigrid_options={"most_lr_factor": 1.0}).multigrid_options


@pytest.fixture
def grid_settings(settings):
    def make(**changes):
        # Stages of 2, 1, 1, 1, 1 … epochs; steps of 16, 8, 4 clips.
        usual = {"multigrid": True, "batch_size": 4, "epochs": 5, "log_every": 1,
                 "augment_noise": 0.01, "eval_every": 99, "save_every": 99}  # fmt: skip
        return settings(**usual | changes)

    return make


def test_a_checkpoint_is_written_at_every_boundary(grid_settings, tmp_path, monkeypatch):
    from posemill.training.loop.trainer import Trainer

    saved = []
    save = Trainer.save

    def noted(self, *names):
        saved.append(self.state.epoch)
        save(self, *names)

    monkeypatch.setattr(Trainer, "save", noted)
    fields = grid_settings()
    train(fields)
    stages = Stages(make_clips(28), TrainConfig(**fields))
    assert saved == [stage.stop_epoch for stage in stages]
    assert len(saved) > 4


@pytest.mark.usefixtures("warm_children")
def test_several_processes_and_accumulation_take_the_same_steps(grid_settings, tmp_path):
    changes = {
        "one": {},
        "accumulated": {"micro_batch": 1},
        "two": {"parallel": "multi_process", "processes": 2, "threads": 1},
    }
    weights = {}
    for name, change in changes.items():
        out = str(tmp_path / name)
        train(grid_settings(out=out, model_options=NO_DROPOUT, epochs=3, optimizer="sgd", **change))
        weights[name] = RunFolder(out).checkpoints.load("last").weights
    for name in ("accumulated", "two"):
        for key, weight in weights["one"].items():
            assert torch.allclose(weight, weights[name][key], atol=1e-5), (name, key)


def course(total_steps=40, epoch_steps=10, **fields):
    """Return the learning rate of each step of a training with one clip a step."""
    epochs = -(-total_steps // epoch_steps)
    settings = {"lr": 1.0, "batch_size": 1, "epochs": epochs, "max_steps": total_steps, **fields}
    stages = Stages(BareClips(epoch_steps), TrainConfig(**settings))
    assert stages.total_steps == total_steps
    return [stages.learning_rate(step) for step in range(total_steps)]


@pytest.mark.parametrize("scheduler", ["constant", "linear", "cosine", "step"])
def test_every_course_warms_up_in_a_straight_line_to_lr(scheduler):
    rates = course(scheduler=scheduler, warmup_epochs=1, step_epochs=[2, 3])
    steps = [after - before for before, after in pairwise(rates[:11])]
    assert steps == pytest.approx([1 / 11] * 10)
    assert rates[10] == pytest.approx(1)


@pytest.mark.parametrize("scheduler", ["linear", "cosine", "one-cycle"])
def test_courses_end_where_final_lr_says(scheduler):
    assert course(scheduler=scheduler, final_lr=0.1, warmup_epochs=0)[-1] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("steps", "fields", "rates"),
    [
        ((40, 10), {"scheduler": "constant"}, [1.0] * 40),
        ((40, 10), {"scheduler": "step", "step_epochs": [1, 3], "step_gamma": 0.5},
         [1.0] * 10 + [0.5] * 20 + [0.25] * 10),
        ((5, 5), {"lr": 3.0, "scheduler": "linear", "final_lr": 0.1},
         [3.0, 2.325, 1.65, 0.975, 0.3]),
        # Two half cosines, up and down again.
        ((21, 10), {"lr": 2.0, "scheduler": "one-cycle", "final_lr": 0.1},
         {0: 0.08, 3: 0.08 + 1.92 / 2, 6: 2.0, 13: 0.2 + 1.8 / 2, 20: 0.2}),
        # The warm-up climbs to where the course begins.
        ((40, 4), {"scheduler": "one-cycle", "warmup_epochs": 0.5}, [0.04 / 3, 0.08 / 3, 0.04]),
        # A drop inside of the warm-up counts from its start.
        ((6, 1), {"scheduler": "step", "warmup_epochs": 2, "step_epochs": [1], "step_gamma": 0.5},
         [0.5 / 3, 1 / 3, 0.5]),
        # A warm-up that is longer than the training still has a last step.
        ((4, 2), {"warmup_epochs": 100}, [0.25, 0.5, 0.75, 1.0]),
    ],
)  # fmt: skip
def test_every_course_goes_its_way(steps, fields, rates):
    found = course(*steps, **{"warmup_epochs": 0, **fields})
    expected = rates if isinstance(rates, dict) else dict(enumerate(rates))
    assert {step: found[step] for step in expected} == pytest.approx(expected)
