from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest
import torch

from posemill.training.config.train_config import TrainConfig
from posemill.training.launch.advice import LEAST_SECONDS, Advice, advise
from posemill.training.loop.timing import PARTS, Clock, shares


def split(**seconds: float) -> dict[str, float]:
    return dict.fromkeys(PARTS, 0.0) | {"forward": 50.0, "backward": 50.0} | seconds


def advice_of(config: TrainConfig, cores: int = 8, ranks: int = 1, **seconds: float) -> list[str]:
    found = advise(split(**seconds), config, cores=cores, ranks=ranks, num_evals=10)
    return [str(entry) for entry in found]


def test_nothing_is_said_where_all_is_well() -> None:
    assert advice_of(TrainConfig(workers=0), data=2, evaluation=2, optimizer=5) == []


@pytest.mark.parametrize(
    ("fields", "cores", "expected"),
    [
        ({"cache": "hdf5"}, 8, "--cache mmap"),
        ({"workers": 0}, 8, "with no loader process on 8 cores: try --workers 2"),
        ({"workers": 0}, 2, "with no loader process on 2 cores: try --workers 1"),
        ({"workers": 2}, 8, "with 2 loader processes on 8 cores: try --workers 4"),
        ({"workers": 1, "cache": "mmap"}, 2, "1 loader process on 2 cores: try --cache ram"),
        ({"workers": 16}, 4, "with 16 loader processes on 4 cores: try --workers 3"),
        ({"workers": 4}, 1, "with 4 loader processes on 1 core: try --workers 1"),
        ({"workers": 0, "cache": "mmap"}, 1, "with no loader process on 1 core: try --cache ram"),
        ({"workers": 7, "cache": "ram"}, 8, "--prefetch-factor 4"),
    ],
)
def test_a_training_that_waits_for_data_is_told_how_to_load_faster(
    fields: dict[str, object], cores: int, expected: str
) -> None:
    (only,) = advice_of(TrainConfig(**fields), cores=cores, data=100)  # type: ignore[arg-type]
    assert only.startswith("50% of the time waits for data")
    assert expected in only


def test_the_two_largest_shares_are_named_first() -> None:
    found = advice_of(
        TrainConfig(workers=0, save_every_steps=10), data=40, evaluation=60, checkpoint=20
    )
    assert found == [
        "27% goes into 10 evaluations: try --eval-every 4",
        "18% of the time waits for data with no loader process on 8 cores: try --workers 2",
    ]


def test_nothing_is_said_of_a_training_shorter_than_a_minute() -> None:
    config = TrainConfig(workers=0)
    short = {"forward": 20.0, "backward": 15.0}
    assert advice_of(config, **short, data=24) == []
    assert len(advice_of(config, **short, data=26)) == 1


def test_no_prefetch_is_advised_where_nothing_loads_ahead() -> None:
    assert advice_of(TrainConfig(workers=0, cache="ram"), cores=1, data=100) == []


@pytest.mark.parametrize(
    ("fields", "is_gpu", "expected"),
    [
        ({"batch_size": 64, "micro_batch": 16}, True,
         "the GPU was busy for 79% of the time, less than 80%: try --micro-batch 32"),
        ({"batch_size": 64, "micro_batch": 64}, True, "try --batch-size 128"),
        ({"parallel": "single"}, False,
         "the 8 cores were busy for 79% of the time, less than 80%: try --parallel auto"),
        ({"parallel": "multi_thread", "batch_size": 8, "micro_batch": 8}, False,
         "less than 80%: try --batch-size 16"),
    ],
)  # fmt: skip
def test_an_idle_device_without_another_cause_is_given_more_to_do(
    fields: dict[str, Any], is_gpu: bool, expected: str
) -> None:
    config = TrainConfig(workers=0, **fields)
    more: dict[str, Any] = {"cores": 8, "ranks": 1, "num_evals": 1, "is_gpu": is_gpu}
    (only,) = advise(split(), config, busy=0.79, **more)
    assert str(only).endswith(expected)
    assert advise(split(), config, busy=0.80, **more) == []
    assert advise(split(), config, busy=None, **more) == []
    # What keeps it waiting is the better advice.
    (only,) = advise(split(data=100), config, busy=0.3, **more)
    assert "waits for data" in str(only)


def test_checkpoints_transfers_and_optimizers_have_their_settings() -> None:
    config = TrainConfig(workers=0, pin_memory=False)
    assert "--save-every 4" in advice_of(config, checkpoint=20)[0]
    steps = TrainConfig(workers=0, save_every_steps=10)
    assert "--save-every-steps 20" in advice_of(steps, checkpoint=20)[0]
    assert "--pin-memory" in advice_of(config, transfer=50)[0]
    assert "--batch-size 128" in advice_of(config, optimizer=50)[0]
    assert "sum of gradients over 2 ranks" in advice_of(config, ranks=2, optimizer=50)[0]


def test_the_clock_gives_time_to_the_part_that_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([10.0, 11.0, 13.0, 20.0, 24.0])
    monkeypatch.setattr("posemill.training.loop.timing.time.perf_counter", lambda: next(now))
    clock = Clock(torch.device("cpu"))
    clock.lap("data")
    clock.lap("forward")
    clock.restart()
    clock.lap("forward")
    seconds = clock.read()
    assert (seconds["data"], seconds["forward"]) == (1.0, 6.0)
    assert shares(seconds)["forward"] == pytest.approx(6 / 7)
    assert shares(dict.fromkeys(PARTS, 0.0))["data"] == 0


def test_on_a_gpu_the_clock_reads_events_when_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Event:
        now = 0.0

        def __init__(self, **_: bool) -> None:
            self.at = 0.0

        def record(self) -> None:
            Event.now += 10
            self.at = Event.now

        def synchronize(self) -> None:
            pass

        def elapsed_time(self, end: Event) -> float:
            return end.at - self.at

    monkeypatch.setattr(torch.cuda, "Event", Event)
    clock = Clock(torch.device("cuda"))
    clock.lap("data")
    clock.lap("forward")
    clock.restart()
    clock.lap("forward")
    assert clock.read()["forward"] == pytest.approx(0.02)
    clock.lap("data")
    assert clock.read()["data"] == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("part", "least", "setting"),
    [
        ("data", 10, "workers"),
        ("transfer", 10, "pin_memory"),
        ("optimizer", 25, "batch_size"),
        ("evaluation", 5, "eval_every"),
        ("checkpoint", 5, "save_every"),
    ],
)
def test_each_part_is_named_from_its_share_on(part: str, least: float, setting: str) -> None:
    config = TrainConfig(workers=0, pin_memory=False)

    def found(percent: float, num_evals: int = 2) -> list[tuple[str, float]]:
        seconds = dict.fromkeys(PARTS, 0.0) | {"forward": 100 - percent, part: percent}
        advice = advise(seconds, config, cores=8, ranks=1, num_evals=num_evals)
        return [(each.setting, each.weight) for each in advice]

    assert found(least) == [(setting, least / 100)]
    assert found(least - 0.25) == []
    # A single evaluation cannot be made rarer.
    assert bool(found(least, num_evals=1)) == (part != "evaluation")


def test_a_training_of_just_a_minute_is_long_enough() -> None:
    assert LEAST_SECONDS == 60
    assert advice_of(TrainConfig(workers=0), forward=20.0, backward=15.0, data=25)


@pytest.mark.parametrize(
    ("fields", "cores", "ranks", "changes"),
    [
        ({"workers": 7, "prefetch_factor": 3}, 8, 1, ["--prefetch-factor 6"]),
        ({"workers": 7, "prefetch_factor": 4}, 8, 1, []),
        ({"workers": 4, "prefetch_factor": 2}, 4, 1, ["--prefetch-factor 4"]),
        ({"workers": 5}, 4, 1, ["--workers 3"]),
        ({"workers": 3}, 5, 1, ["--workers 4"]),
        ({"workers": 1}, 8, 1, ["--workers 2"]),
        ({"workers": 0}, 8, 4, ["--workers 1"]),
        ({"workers": 0}, 8, 8, []),
    ],
)
def test_loaders_are_advised_up_to_the_cores_that_a_rank_has_to_spare(
    fields: dict[str, Any], cores: int, ranks: int, changes: list[str]
) -> None:
    config = TrainConfig(cache="ram", **fields)
    found = advise(split(data=100), config, cores=cores, ranks=ranks, num_evals=1)
    assert [each.change for each in found] == changes


def test_memory_is_not_pinned_twice() -> None:
    assert advice_of(TrainConfig(workers=0, pin_memory=True), transfer=50) == []


@pytest.mark.parametrize(("cores", "setting"), [(1, "batch_size"), (2, "parallel")])
def test_only_more_than_one_core_can_be_shared_out(cores: int, setting: str) -> None:
    config = TrainConfig(workers=0, parallel="single", batch_size=8, micro_batch=8)
    (only,) = advise(split(), config, cores=cores, ranks=1, num_evals=1, busy=0.5)
    assert (only.setting, only.weight) == (setting, 0.5)


def test_advice_stays_as_it_is() -> None:
    advice = Advice("workers", "--workers 2", "seen", 0.5)
    with pytest.raises(FrozenInstanceError):
        advice.weight = 1.0  # type: ignore[misc]
