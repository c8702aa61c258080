from itertools import pairwise

import pytest

from posemill.training.data.clips import TIME_ONLY, Shape
from posemill.training.multigrid.schedule import Multigrid

PAPER = Multigrid(239, lr_steps=(94, 154, 196))
LONG_ONLY = Multigrid(239, lr_steps=(94, 154, 196), has_short_cycle=False)


def test_the_long_and_the_short_cycle_of_32_frames_and_224_pixels():
    shapes = [shapes[-1] for shapes in PAPER.long_cycle]
    assert shapes == [
        Shape(8, 8, 158), Shape(4, 16, 158), Shape(2, 16, 224), Shape(1, 32, 224),
    ]  # fmt: skip
    assert LONG_ONLY.long_cycle == tuple((shape,) for shape in shapes)
    small, _, large, full = PAPER.long_cycle
    assert [(s.batch // 8, s.num_frames, s.size) for s in small] == [
        (2, 8, 112), (1, 8, 158), (1, 8, 158),
    ]  # fmt: skip
    assert [(s.batch // 2, s.num_frames, s.size) for s in large] == [
        (4, 16, 112), (2, 16, 158), (1, 16, 224),
    ]  # fmt: skip
    assert full == (Shape(4, 32, 112), Shape(2, 32, 158), Shape(1, 32, 224))


def test_239_epochs_become_358_with_3_42_times_fewer_iterations():
    assert PAPER.total_epochs == 358
    assert round(PAPER.saving, 2) == 3.42
    assert len(PAPER.phases) == 3 * 4 + 1
    assert [p.lr_step for p in PAPER.phases] == [0] * 4 + [1] * 4 + [2] * 4 + [3]
    assert [p.shapes for p in PAPER.phases[:4]] == [p.shapes for p in PAPER.phases[8:12]]
    fine = PAPER.phases[-1]
    assert fine.shapes == PAPER.long_cycle[-1]
    assert (fine.start_epoch, fine.stop_epoch) == (329, 358)
    # 94 * 10.67 / 23 epochs, scaled by 358.5 / (196 + 43 / 5.75 * 2.33).
    assert PAPER.phases[0].stop_epoch == round(94 * (32 / 3) / 23 * 358.5 / (196 + 17.449))


def test_the_keypoint_form_has_time_only():
    grid = Multigrid(40, 4, 1, lr_steps=(20, 35), grid=TIME_ONLY, has_short_cycle=False)
    assert [shapes for (shapes,) in grid.long_cycle] == [
        Shape(4, 1, 1), Shape(2, 2, 1), Shape(1, 4, 1),
    ]  # fmt: skip
    assert round(grid.saving, 2) == 1.44
    once = Multigrid(
        40, 4, 1, lr_steps=(20, 35), grid=TIME_ONLY, has_short_cycle=False, epoch_factor=1.0
    )
    assert round(once.saving, 2) == 2.17


def test_the_learning_rate_grows_with_the_long_cycle_and_falls_in_the_fine_tune_phase():
    rates = [PAPER.learning_rate(p.start_epoch, lr=0.1) for p in PAPER.phases[:-1]]
    factors = [8, 4, 2, 1]
    assert rates == pytest.approx(
        [0.1 * 0.1**step * factor for step in range(3) for factor in factors]
    )
    capped = Multigrid(239, lr_steps=(94, 154, 196), most_lr_factor=4)
    assert [capped.lr_factor(p.start_epoch) for p in capped.phases[:4]] == [4, 4, 2, 1]
    fine = PAPER.phases[-1]
    half = (fine.start_epoch + fine.stop_epoch) // 2
    assert half == 343
    assert PAPER.learning_rate(half - 1, lr=0.1) == pytest.approx(0.1 * 0.1**2)
    assert PAPER.learning_rate(half, lr=0.1) == pytest.approx(0.1 * 0.1**3)
    assert PAPER.lr_step(500) == 3, "after the end it stays"


def test_the_warm_up_rises_to_the_rate_at_its_end():
    def rate(epoch):
        return PAPER.learning_rate(epoch, lr=0.1, warmup_epochs=34, warmup_from=0.01)

    assert rate(0) == pytest.approx(0.01)
    assert rate(34) == pytest.approx(0.8)
    assert rate(17) == pytest.approx((0.01 + 0.8) / 2)
    long = PAPER.phases[0].stop_epoch + 1
    assert PAPER.learning_rate(long - 0.5, lr=0.1, warmup_epochs=long) < 0.1 * 4


def test_phases_follow_each_other_and_short_schedules_leave_some_out():
    for epochs in (1, 2, 3, 5, 16, 60):
        grid = Multigrid(epochs, 8, 112)
        assert grid.phases[0].start_epoch == 0
        ends = [(p.stop_epoch, q.start_epoch) for p, q in pairwise(grid.phases)]
        assert all(stop == start for stop, start in ends)
        assert abs(grid.total_epochs - 1.5 * epochs) <= 0.5
        assert grid.phases[-1].start_epoch < grid.phases[-1].stop_epoch, "whole clips come last"
    assert Multigrid(1, epoch_factor=0.1).total_epochs == 1
    short = Multigrid(3, 8, 112)
    assert any(p.start_epoch == p.stop_epoch for p in short.phases)
    assert all(short.phase_at(epoch).stop_epoch > epoch for epoch in range(short.total_epochs))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"lr_steps": steps}, "lr_steps: expected epochs that rise, above 0 and below")
          for steps in ((), (0,), (5, 5), (10,), (7, 3))),
        ({"grid": ((0.5, 1.0),)}, r"grid: expected shares that end with \(1, 1\)"),
        *((wrong, "expected num_frames and size of 1 or more") for wrong in
          ({"num_frames": 0}, {"size": 0}, {"epoch_factor": 0}, {"most_lr_factor": 0.5})),
    ],
)  # fmt: skip
def test_what_makes_no_schedule_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Multigrid(10, **options)
