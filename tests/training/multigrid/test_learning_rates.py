from __future__ import annotations

from itertools import pairwise

import pytest

from posemill.training.config.train_config import TrainConfig
from posemill.training.multigrid.stages import learning_rate


def course(**fields: object) -> list[float]:
    config = TrainConfig(lr=1.0, **fields)  # type: ignore[arg-type]
    return [learning_rate(config, step, total_steps=40, epoch_steps=10) for step in range(40)]


@pytest.mark.parametrize("scheduler", ["constant", "linear", "cosine", "step"])
def test_every_course_warms_up_in_a_straight_line_to_lr(scheduler: str) -> None:
    rates = course(scheduler=scheduler, warmup_epochs=1, step_epochs=[2, 3])
    steps = [after - before for before, after in pairwise(rates[:11])]
    assert steps == pytest.approx([1 / 11] * 10)
    assert rates[10] == pytest.approx(1)


def test_courses_end_where_final_lr_says() -> None:
    for scheduler in ("linear", "cosine", "one-cycle"):
        assert course(scheduler=scheduler, final_lr=0.1, warmup_epochs=0)[-1] == pytest.approx(0.1)
    assert course(scheduler="constant", warmup_epochs=0) == [1.0] * 40


def test_steps_multiply_by_gamma_at_their_epochs() -> None:
    rates = course(scheduler="step", step_epochs=[1, 3], step_gamma=0.5, warmup_epochs=0)
    assert rates == [1.0] * 10 + [0.5] * 20 + [0.25] * 10


@pytest.mark.parametrize(
    ("step", "rate"),
    [(0, 0.04), (3, 0.04 + 0.96 * 0.5), (6, 1.0), (13, 0.1 + 0.9 * 0.5), (20, 0.1)],
)
def test_one_cycle_is_two_half_cosines(step: int, rate: float) -> None:
    config = TrainConfig(lr=2.0, scheduler="one-cycle", warmup_epochs=0, final_lr=0.1)
    found = learning_rate(config, step, total_steps=21, epoch_steps=10)
    assert found == pytest.approx(2.0 * rate)


@pytest.mark.parametrize(("step", "rate"), [(0, 1.0), (1, 0.775), (2, 0.55), (4, 0.1), (9, 0.1)])
def test_linear_goes_down_evenly_and_stays_at_its_end(step: int, rate: float) -> None:
    config = TrainConfig(lr=3.0, scheduler="linear", warmup_epochs=0, final_lr=0.1)
    assert learning_rate(config, step, total_steps=5, epoch_steps=5) == pytest.approx(3.0 * rate)


def test_the_warm_up_climbs_to_where_the_course_begins() -> None:
    config = TrainConfig(lr=1.0, scheduler="one-cycle", warmup_epochs=0.5)
    rates = [learning_rate(config, step, total_steps=40, epoch_steps=4) for step in range(3)]
    assert rates == pytest.approx([0.04 / 3, 0.08 / 3, 0.04])


def test_a_drop_inside_of_the_warm_up_counts_from_its_start() -> None:
    config = TrainConfig(lr=1.0, scheduler="step", warmup_epochs=2, step_epochs=[1], step_gamma=0.5)
    rates = [learning_rate(config, step, total_steps=6, epoch_steps=1) for step in range(3)]
    assert rates == pytest.approx([0.5 / 3, 1 / 3, 0.5])


def test_warm_up_longer_than_the_training_still_has_a_last_step() -> None:
    config = TrainConfig(lr=1.0, warmup_epochs=100)
    assert learning_rate(config, 3, total_steps=4, epoch_steps=2) == pytest.approx(1.0)
