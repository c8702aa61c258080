from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest
import torch

from posemill.training.config.train_config import TrainConfig
from posemill.training.loop.evidence import Evidence
from posemill.training.loop.step_watch import Wait
from posemill.training.loop.timing import PARTS, Clock, shares
from posemill.training.tuning.advice import LEAST_SECONDS, Advice, advise


def split(**seconds: float) -> dict[str, float]:
    return dict.fromkeys(PARTS, 0.0) | {"forward": 50.0, "backward": 50.0} | seconds


def advice_of(config: TrainConfig, cores: int = 8, ranks: int = 1, **seconds: float) -> list[str]:
    evidence = Evidence(split(**seconds), cores=cores, ranks=ranks, num_evals=10)
    found = advise(evidence, config)
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


def test_all_that_takes_long_is_named_and_the_largest_gain_first() -> None:
    found = advice_of(
        TrainConfig(workers=0, save_every_steps=10), data=40, evaluation=60, checkpoint=20
    )
    assert found == [
        "18% of the time waits for data with no loader process on 8 cores: try --workers 2 "
        "(up to 1.22x)",
        "27% goes into 10 evaluations: try --eval-every 4 (up to 1.16x)",
        "9% goes into checkpoints: try --save-every-steps 20 (up to 1.05x)",
    ]


def test_nothing_is_said_of_a_training_shorter_than_a_minute() -> None:
    config = TrainConfig(workers=0)
    short = {"forward": 20.0, "backward": 15.0}
    assert advice_of(config, **short, data=24) == []
    assert len(advice_of(config, **short, data=26)) == 1
    evidence = Evidence(split(**short, data=24), cores=8)
    assert len(advise(evidence, config, is_asked=True)) == 1


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

    def found(busy: float | None, **seconds: float) -> list[Advice]:
        evidence = Evidence(split(**seconds), cores=8, num_evals=1, is_gpu=is_gpu, busy_share=busy)
        return advise(evidence, config)

    (only,) = found(0.79)
    assert str(only).endswith(f"{expected} (up to 1.27x)")
    assert found(0.80) == []
    assert found(None) == []
    # What keeps it waiting is the better advice.
    (only,) = found(0.3, data=100)
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

    def found(percent: float, num_evals: int = 2) -> list[tuple[str, float | None]]:
        seconds = dict.fromkeys(PARTS, 0.0) | {"forward": 100 - percent, part: percent}
        advice = advise(Evidence(seconds, cores=8, num_evals=num_evals), config)
        return [(each.setting, each.gain) for each in advice]

    # Without it at all, or half as often.
    saved = least / 100 if part in ("data", "transfer") else least / 200
    assert found(least) == [(setting, pytest.approx(1 / (1 - saved)))]
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
    evidence = Evidence(split(data=100), cores=cores, ranks=ranks, num_evals=1)
    found = advise(evidence, config)
    assert [each.change for each in found] == changes


def test_memory_is_not_pinned_twice() -> None:
    assert advice_of(TrainConfig(workers=0, pin_memory=True), transfer=50) == []


@pytest.mark.parametrize(("cores", "setting"), [(1, "batch_size"), (2, "parallel")])
def test_only_more_than_one_core_can_be_shared_out(cores: int, setting: str) -> None:
    config = TrainConfig(workers=0, parallel="single", batch_size=8, micro_batch=8)
    (only,) = advise(Evidence(split(), cores=cores, num_evals=1, busy_share=0.5), config)
    assert (only.setting, only.gain) == (setting, 2.0)


def test_advice_stays_as_it_is() -> None:
    advice = Advice("workers", "--workers 2", "seen", 0.5)
    with pytest.raises(FrozenInstanceError):
        advice.gain = 1.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"bucket_by_length": False}, "--bucket-by-length (up to 1.43x)"),
        ({"micro_batch": 32}, "--micro-batch 16 (up to 1.43x)"),
    ],
)
def test_padding_over_three_tenths_is_named(fields: dict[str, Any], expected: str) -> None:
    config = TrainConfig(workers=0, **fields)
    (only,) = advise(Evidence(split(), cores=1, padding_share=0.3), config)
    assert str(only) == f"30% of the frames in batches only fill up shorter clips: try {expected}"
    assert advise(Evidence(split(), cores=1, padding_share=0.29), config) == []
    # Clips that come one by one have none.
    alone = TrainConfig(workers=0, micro_batch=1)
    assert advise(Evidence(split(), cores=1, padding_share=0.5), alone) == []


def test_more_loaders_than_cores_are_named_where_nothing_waits_for_them_too() -> None:
    (only,) = advise(Evidence(split(), cores=4, ranks=2), TrainConfig(workers=3))
    assert str(only) == (
        "3 loader processes share 2 cores with the training: try --workers 1 (gain not measured)"
    )
    assert advise(Evidence(split(), cores=4, ranks=2), TrainConfig(workers=2)) == []


def test_bf16_is_named_where_it_was_measured_to_pay() -> None:
    config = TrainConfig(workers=0, precision="fp32")
    (only,) = advise(Evidence(split(), cores=1, bf16_gain=1.6), config)
    assert str(only) == (
        "a step took 1.60 times as long in fp32 as in bf16: try --precision bf16 (up to 1.60x)"
    )
    assert advise(Evidence(split(), cores=1, bf16_gain=1.04), config) == []
    # A step is half of the time here.
    (only,) = advise(Evidence(split(data=9, evaluation=91), cores=1, bf16_gain=2.0), config)
    assert only.gain == pytest.approx(1 / 0.75)


def test_a_line_that_waits_is_named_with_its_file_and_the_slowest_first() -> None:
    waits = (Wait("a.py", 3, ".item()", 0.0, 1), Wait("b.py", 7, "print()", 0.2, 1))
    evidence = Evidence(split(), cores=8, busy_share=0.5, waits=waits)
    assert [str(each) for each in advise(evidence, TrainConfig(workers=0))] == [
        "b.py:7 calls print(), 20% of the time of steps: try it once in 100 steps (up to 1.25x)",
        "a.py:3 calls .item() in every step, each of which a GPU would wait for: "
        "try it once in 100 steps (gain not measured)",
    ]


def test_advice_is_plain_values_for_programs() -> None:
    (only,) = advise(Evidence(split(checkpoint=100), cores=1), TrainConfig(workers=0))
    assert only.to_json() == {
        "setting": "save_every", "change": "--save-every 4", "gain": pytest.approx(4 / 3),
        "evidence": "50% goes into checkpoints", "text": str(only),
    }  # fmt: skip


def test_videos_that_every_epoch_decodes_are_named_with_disk_and_gain() -> None:
    config = TrainConfig(workers=1, cache="none", data="my videos.csv")
    video = {"num_videos": 800, "decoded_bytes": 1_350_000_000, "frame_side": 112}

    def found(free: int, data: float) -> list[str]:
        evidence = Evidence(split(data=data), cores=2, **video, free_bytes=free)
        return [str(each) for each in advise(evidence, config) if "videos" in str(each)]

    seen = "50% of the time waits for 800 videos that every epoch decodes anew: try "
    frames = "posemill frames 'my videos.csv' --out frames --size 112 --short-side"
    assert found(10**10, 100) == [
        f"{seen}--cache mmap (1.4 GB of 10.0 GB free), or once: {frames} --pack (up to 2.00x)"
    ]
    assert found(10**9, 100) == [
        f"{seen}{frames} (JPEG; decoded they would take 1.4 GB, and 1.0 GB are free) (up to 2.00x)"
    ]
    assert found(10**10, 5) == []
    assert len(advise(Evidence(split(data=100), cores=2), config)) == 1, "packs are not decoded"


def test_compiling_for_a_few_steps_is_told_from_training() -> None:
    evidence = Evidence(split(forward=78.0, backward=4.0), cores=2, compile_seconds=70.0)
    (only,) = advise(evidence, TrainConfig(workers=0, compile="on"))
    assert only.setting == "compile"
    assert str(only).startswith("85% of the time, 70 s, went into torch.compile: try --compile off")
    long = Evidence(split(forward=7000.0), cores=2, compile_seconds=70.0)
    assert advise(long, TrainConfig(workers=0, compile="on")) == []


def test_video_is_not_told_to_wait_in_ram() -> None:
    config = TrainConfig(model="tsm", workers=1, cache="mmap")
    assert not [said for said in advice_of(config, cores=2, data=100) if "--cache ram" in said]
