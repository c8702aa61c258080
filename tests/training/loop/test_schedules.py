from __future__ import annotations

from itertools import pairwise

import pytest

from posemill.training.config.train_config import TrainConfig
from posemill.training.loop.schedules import learning_rate


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


def test_cosine_is_half_way_in_the_middle() -> None:
    config = TrainConfig(lr=2.0, scheduler="cosine", warmup_epochs=0)
    assert learning_rate(config, 20, total_steps=41, epoch_steps=10) == pytest.approx(1.0)


def test_steps_multiply_by_gamma_at_their_epochs() -> None:
    rates = course(scheduler="step", step_epochs=[1, 3], step_gamma=0.5, warmup_epochs=0)
    assert rates == [1.0] * 10 + [0.5] * 20 + [0.25] * 10


def test_one_cycle_climbs_from_a_25th_and_comes_down() -> None:
    rates = course(scheduler="one-cycle", warmup_epochs=0)
    assert rates[0] == pytest.approx(1 / 25)
    top = rates.index(max(rates))
    assert 10 <= top <= 13
    assert rates[:top] == sorted(rates[:top])
    assert rates[top:] == sorted(rates[top:], reverse=True)


def test_warm_up_longer_than_the_training_still_has_a_last_step() -> None:
    config = TrainConfig(lr=1.0, warmup_epochs=100)
    assert learning_rate(config, 3, total_steps=4, epoch_steps=2) == pytest.approx(1.0)
