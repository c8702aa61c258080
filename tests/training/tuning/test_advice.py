import pytest

from posemill.messages import Flags, render
from posemill.training.config.train_config import TrainConfig
from posemill.training.loop.timing import PARTS, Evidence, Wait
from posemill.training.tuning.advice import LEAST_SECONDS, advise

FACTS = {"cores", "ranks", "num_evals", "busy_share", "is_gpu", "padding_share", "bf16_gain"}
FACTS |= {"compile_seconds", "waits", "num_videos", "decoded_bytes", "frame_side", "free_bytes"}


def find(config=None, **values):
    """Return the advice on a training of 100 s of computing and these other seconds and facts."""
    facts = {name: values.pop(name) for name in FACTS & set(values)}
    seconds = dict.fromkeys(PARTS, 0.0) | {"forward": 50.0, "backward": 50.0} | values
    evidence = Evidence(seconds, **{"cores": 8, "num_evals": 10} | facts)
    return advise(evidence, config or TrainConfig(workers=0))


def shown(advice):
    return render(advice.sentence, flags=Flags())


def changes(found):
    return [render(advice.change, flags=Flags()) for advice in found]


def test_nothing_is_said_where_all_is_well_or_before_a_minute_unless_asked():
    assert find(data=2, evaluation=2, optimizer=5) == []
    assert LEAST_SECONDS == 60
    short = {"forward": 20.0, "backward": 15.0}
    assert find(**short, data=24) == []
    assert len(find(**short, data=25)) == 1
    evidence = Evidence(dict.fromkeys(PARTS, 0.0) | short | {"data": 24.0}, cores=8)
    assert len(advise(evidence, TrainConfig(workers=0), is_asked=True)) == 1


@pytest.mark.parametrize(
    ("fields", "cores", "ranks", "expected"),
    [
        ({"cache": "hdf5"}, 8, 1, ["--cache mmap (or ram)"]),
        ({"workers": 0}, 8, 1, ["--workers 2"]),
        ({"workers": 0}, 2, 1, ["--workers 1"]),
        ({"workers": 2}, 8, 1, ["--workers 4"]),
        ({"workers": 16}, 4, 1, ["--workers 3"]),
        ({"workers": 4}, 1, 1, ["--workers 1"]),
        ({"workers": 3}, 5, 1, ["--workers 4"]),
        ({"workers": 0}, 8, 4, ["--workers 1"]),
        ({"workers": 0, "cache": "ram"}, 8, 8, []),
        ({"workers": 1, "cache": "mmap"}, 2, 1, ["--cache ram"]),
        ({"workers": 1, "cache": "mmap", "model": "tsm"}, 2, 1, ["--prefetch-factor 4"]),
        ({"workers": 7, "cache": "ram"}, 8, 1, ["--prefetch-factor 4"]),
        ({"workers": 7, "cache": "ram", "prefetch_factor": 3}, 8, 1, ["--prefetch-factor 6"]),
        ({"workers": 7, "cache": "ram", "prefetch_factor": 4}, 8, 1, []),
    ],
)
def test_a_training_that_waits_for_data_is_told_how_to_load_faster(fields, cores, ranks, expected):
    found = find(TrainConfig(**fields), cores=cores, ranks=ranks, data=100)
    assert changes(found) == expected
    assert all(advice.gain == 2.0 for advice in found)


def test_all_that_takes_long_and_lines_that_wait_are_named_the_largest_gain_first():
    config = TrainConfig(workers=0, save_every_steps=10)
    assert [shown(each) for each in find(config, data=40, evaluation=60, checkpoint=20)] == [
        "18% of the time waits for data with no loader process on 8 cores: try --workers 2 "
        "(up to 1.22x)",
        "27% goes into 10 evaluations: try --eval-every 4 (up to 1.16x)",
        "9% goes into checkpoints: try --save-every-steps 20 (up to 1.05x)",
    ]
    waits = (Wait("a.py", 3, ".item()", 0.1), Wait("b.py", 7, "print()", 0.2))
    assert [shown(each) for each in find(busy_share=0.5, waits=waits)] == [
        "b.py:7 calls print(), 20% of the time of steps: try it once in 100 steps (up to 1.25x)",
        "a.py:3 calls .item(), 10% of the time of steps: try it once in 100 steps (up to 1.11x)",
    ]


@pytest.mark.parametrize(
    ("fields", "facts", "expected"),
    [
        ({"batch_size": 64, "micro_batch": 16}, {"is_gpu": True}, "--micro-batch 32"),
        ({"batch_size": 64, "micro_batch": 64}, {"is_gpu": True}, "--batch-size 128"),
        ({"parallel": "single"}, {}, "--parallel auto"),
        ({"parallel": "single", "batch_size": 8}, {"cores": 1}, "--batch-size 16"),
        ({"parallel": "multi_thread", "batch_size": 8}, {}, "--batch-size 16"),
    ],
)
def test_an_idle_device_without_another_cause_is_given_more_to_do(fields, facts, expected):
    config = TrainConfig(workers=0, **{"micro_batch": fields.get("batch_size", 8)} | fields)
    (only,) = find(config, busy_share=0.79, **facts)
    assert changes([only]) == [expected]
    assert only.gain == pytest.approx(1 / 0.79)
    assert find(config, busy_share=0.80, **facts) == []
    assert find(config, busy_share=None, **facts) == []


@pytest.mark.parametrize(
    ("part", "least", "expected"),
    [
        ("data", 10, "--workers 2"),
        ("transfer", 10, "--pin-memory"),
        ("optimizer", 25, "--batch-size 128"),
        ("evaluation", 5, "--eval-every 4"),
        ("checkpoint", 5, "--save-every 4"),
    ],
)
def test_each_part_is_named_from_its_share_on(part, least, expected):
    config = TrainConfig(workers=0, pin_memory=False)

    def found(percent, num_evals=2):
        seconds = {"forward": 100 - percent, "backward": 0.0, part: percent}
        return find(config, num_evals=num_evals, **seconds)

    (only,) = found(least)
    # Without it at all, or half as often.
    saved = least / 100 if part in ("data", "transfer") else least / 200
    assert (*changes([only]), only.gain) == (expected, pytest.approx(1 / (1 - saved)))
    assert found(least - 0.25) == []
    # A single evaluation cannot be made rarer.
    assert bool(found(least, num_evals=1)) == (part != "evaluation")


def test_videos_that_every_epoch_decodes_are_named_with_disk_and_gain():
    config = TrainConfig(workers=1, cache="none", data="my videos.csv")
    video = {"num_videos": 800, "decoded_bytes": 1_350_000_000, "frame_side": 112, "cores": 2}

    def found(free, data):
        advice = find(config, data=data, free_bytes=free, **video)
        return changes([each for each in advice if each.setting in ("cache", "data")])

    frames = "posemill frames 'my videos.csv' --out frames --resize 112 --short-side"
    assert found(10**10, 100) == [
        f"--cache mmap (1.4 GB of 10.0 GB free), or once: {frames} --pack"
    ]
    assert found(10**9, 100) == [
        f"{frames} (JPEG; decoded they would take 1.4 GB, and 1.0 GB are free)"
    ]
    assert found(10**10, 5) == []
    assert len(find(config, cores=2, data=100)) == 1, "packs are not decoded"


@pytest.mark.parametrize(
    ("fields", "facts", "change", "gain"),
    [
        ({}, {"ranks": 2, "optimizer": 50},
         "--batch-size 128 (fewer sums), or --parallel multi_thread", 1 / (1 - 1 / 6)),
        ({"pin_memory": True}, {"transfer": 50}, "", None),
        ({"bucket_by_length": False}, {"padding_share": 0.3}, "--bucket-by-length", 1 / 0.7),
        ({"micro_batch": 32}, {"padding_share": 0.3}, "--micro-batch 16", 1 / 0.7),
        ({"micro_batch": 32}, {"padding_share": 0.29}, "", None),
        ({"micro_batch": 1}, {"padding_share": 0.5}, "", None),  # clips come one by one
        ({"workers": 3}, {"cores": 4, "ranks": 2}, "--workers 1", None),
        ({"workers": 2}, {"cores": 4, "ranks": 2}, "", None),
        ({"precision": "fp32"}, {"bf16_gain": 1.6}, "--precision bf16", 1.6),
        ({"precision": "fp32"}, {"bf16_gain": 1.04}, "", None),
        # A step is half of the time here.
        ({}, {"data": 9, "evaluation": 91, "bf16_gain": 2.0, "num_evals": 1}, "--precision bf16",
         1 / 0.75),
        ({"compile": "on"}, {"forward": 78.0, "backward": 4.0, "compile_seconds": 70.0},
         "--compile off for so few steps", 82 / 12),
        ({"compile": "on"}, {"forward": 7000.0, "compile_seconds": 70.0}, "", None),
        ({}, {"busy_share": 0.3, "data": 100}, "--workers 2", 2.0),  # why it was not busy
    ],
)  # fmt: skip
def test_what_was_measured_leads_to_one_change_or_none(fields, facts, change, gain):
    found = find(TrainConfig(**{"workers": 0} | fields), **facts)
    assert changes(found) == ([change] if change else [])
    assert all(advice.gain == (gain and pytest.approx(gain)) for advice in found)
    if gain is None and found:
        seen = "3 loader processes share 2 cores with the training"
        assert shown(found[0]) == f"{seen}: try --workers 1 (gain not measured)"
