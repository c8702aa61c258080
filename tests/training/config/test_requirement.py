"""The words and the presets of ../shared/requirement/003, in a file, as flags and in Python."""

import json
from ast import literal_eval

import pytest
import torch
from cli_runner import call, said_by

from posemill.errors import ConfigError
from posemill.training.config.resolve import resolve_config
from posemill.training.config.run_settings import MOST_WORKERS
from posemill.training.config.train_config import TrainConfig
from posemill.training.config.unused import unused_settings
from posemill.training.models import build_model
from posemill.training.precision import choose_device, choose_precision

# As the requirement writes them.
AS_WRITTEN = """
    ims_per_gpu={} num_workers={} pin_memory=True persistent_workers=True prefetch_factor={}
    use_fp16=True gradient_accumulation_steps={}
"""
WRITTEN = {
    "high-performance": AS_WRITTEN.format(64, 8, 2, 1),
    "memory-limited": AS_WRITTEN.format(32, 8, 2, 2),
    "extreme": AS_WRITTEN.format(128, 16, 4, 1),
    "by hand": "ims_per_gpu=16 accumulation_steps=4 max_grad_norm=0.5",
}
NAMES = ("micro_batch", "batch_size", "workers", "prefetch_factor", "precision", "clip_grad_norm",
         "pin_memory", "persistent_workers")  # fmt: skip
MEANT = {
    "high-performance": (64, 64, 8, 2, "mixed", 1.0),
    "memory-limited": (32, 64, 8, 2, "mixed", 1.0),
    "extreme": (128, 128, 16, 4, "mixed", 1.0),
    "by hand": (16, 64, -1, 2, "auto", 0.5),
}


@pytest.mark.parametrize("preset", WRITTEN)
def test_the_settings_of_the_requirement_mean_the_same_in_files_python_presets_and_flags(
    preset, tmp_path, monkeypatch
):
    path = tmp_path / "c.toml"
    path.write_text("\n".join(WRITTEN[preset].replace("True", "true").split()))
    pairs = (line.split("=") for line in WRITTEN[preset].split())
    settings = {name: literal_eval(value) for name, value in pairs}
    configs = [
        resolve_config(path, memory_bytes=1 << 28).config,
        resolve_config(None, settings).config,
        TrainConfig(**settings),
        TrainConfig().replace(**settings),
    ]
    if preset in MOST_WORKERS:
        configs.append(TrainConfig(preset=preset, workers=MOST_WORKERS[preset]))

    def look(*arguments):
        configs.append(arguments[-1].config)
        raise KeyboardInterrupt

    words = []
    for name, value in settings.items():
        words += [f"--{name}"] if value is True else [f"--{name}", value]
    for command, called in (("train", "front.train"), ("tune", "tuning.tune.tune_training")):
        monkeypatch.setattr(f"posemill.training.{called}", look)
        output = call(command, *words).output
        assert "next version" not in output
        assert "is now" not in output
    assert len(configs) >= 6
    for config in configs:
        if "workers" not in path.read_text():
            config = config.replace(workers=-1)  # as many as the machine has cores for
        assert tuple(getattr(config, name) for name in NAMES) == (*MEANT[preset], True, True)


@pytest.mark.parametrize(
    ("has_bf16", "name", "reason"),
    [
        (True, "bf16", "mixed, which is bf16 on a CPU that computes it; fp16 is for GPUs"),
        (False, "fp32", "this CPU has neither AVX512-BF16 nor AMX: bf16 would be emulated, 10 "
         "times slower"),
    ],
)  # fmt: skip
def test_use_fp16_on_a_cpu_is_the_mixed_precision_it_has_in_one_sentence(
    monkeypatch, has_bf16, name, reason
):
    module = "posemill.training.precision"
    monkeypatch.setattr(f"{module}.cpu_has_fast_bf16", lambda: has_bf16)
    chosen = choose_precision(TrainConfig(use_fp16=True).precision, choose_device("cpu"))
    assert (chosen.name, chosen.reason, chosen.is_slow) == (name, reason, False)
    result = call("train", "--use_fp16", "--device", "cpu", "--show-config", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    rows = {row["name"]: row for row in json.loads(result.stdout)}
    assert rows["precision"]["value"] == name
    assert rows["precision"]["source"] == f"machine: {reason}"
    assert 'precision = "fp32" ' in said_by("train", "--no-use-fp16", "--show-config")


def test_eval_scales_is_a_setting_of_video_and_says_what_else_there_is():
    said = said_by("train", "--eval_scales", "0.5,1", "--show-config")
    assert "eval_scales = [0.5, 1.0]" in said
    config = TrainConfig(eval_scales=[0.5, 1])
    assert unused_settings(config, has_dev=True) == [
        'eval_scales="[0.5, 1.0]" has no effect: only video is evaluated at several sizes; '
        "eval_every says how often"
    ]
    with pytest.raises(ConfigError, match=r"eval_scales: expected shares from 0\.25 to 4"):
        TrainConfig(eval_scales=[0.0])
    with pytest.raises(ConfigError, match="eval_scales averages one answer of a clip"):
        TrainConfig(eval_scales=[1.0], task="ctc")


def test_videos_are_evaluated_at_several_sizes_and_trained_at_one():
    torch.manual_seed(0)
    model = build_model("tsn", num_classes=3, num_frames=2)
    frames = torch.randint(0, 255, (2, 2, 48, 48, 3), dtype=torch.uint8)
    lengths = torch.tensor([2, 2])
    model.eval()
    sizes = []
    network = model.backbone
    network.register_forward_pre_hook(lambda _, given: sizes.append(given[0].shape[-1]))

    def said(*scales):
        model.eval_scales = scales
        return model(frames, lengths)

    several = said(0.75, 1.0)
    assert sizes == [36, 48]
    one, small = said(1.0), said(0.75)
    torch.testing.assert_close(several.exp(), (one.exp() + small.exp()) / 2)
    torch.testing.assert_close(one, said().log_softmax(-1))
    sizes.clear()
    model.train()
    said(0.75, 1.0)
    assert sizes == [48]
