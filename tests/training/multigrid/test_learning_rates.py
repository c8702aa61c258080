from __future__ import annotations

from itertools import pairwise

import pytest
from small_sets import BareClips

from posemill.training.config.train_config import TrainConfig
from posemill.training.multigrid.stages import Stages


def course(total_steps: int = 40, epoch_steps: int = 10, **fields: object) -> list[float]:
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


def test_courses_end_where_final_lr_says():
    for scheduler in ("linear", "cosine", "one-cycle"):
        assert course(scheduler=scheduler, final_lr=0.1, warmup_epochs=0)[-1] == pytest.approx(0.1)
    assert course(scheduler="constant", warmup_epochs=0) == [1.0] * 40


def test_steps_multiply_by_gamma_at_their_epochs():
    rates = course(scheduler="step", step_epochs=[1, 3], step_gamma=0.5, warmup_epochs=0)
    assert rates == [1.0] * 10 + [0.5] * 20 + [0.25] * 10


@pytest.mark.parametrize(
    ("step", "rate"),
    [(0, 0.04), (3, 0.04 + 0.96 * 0.5), (6, 1.0), (13, 0.1 + 0.9 * 0.5), (20, 0.1)],
)
def test_one_cycle_is_two_half_cosines(step, rate):
    rates = course(21, lr=2.0, scheduler="one-cycle", warmup_epochs=0, final_lr=0.1)
    assert rates[step] == pytest.approx(2.0 * rate)


def test_linear_goes_down_evenly_to_its_end():
    rates = course(5, 5, lr=3.0, scheduler="linear", warmup_epochs=0, final_lr=0.1)
    assert rates == pytest.approx([3.0 * share for share in (1.0, 0.775, 0.55, 0.325, 0.1)])


def test_the_warm_up_climbs_to_where_the_course_begins():
    rates = course(40, 4, scheduler="one-cycle", warmup_epochs=0.5)[:3]
    assert rates == pytest.approx([0.04 / 3, 0.08 / 3, 0.04])


def test_a_drop_inside_of_the_warm_up_counts_from_its_start():
    rates = course(6, 1, scheduler="step", warmup_epochs=2, step_epochs=[1], step_gamma=0.5)[:3]
    assert rates == pytest.approx([0.5 / 3, 1 / 3, 0.5])


def test_warm_up_longer_than_the_training_still_has_a_last_step():
    assert course(4, 2, warmup_epochs=100)[3] == pytest.approx(1.0)
