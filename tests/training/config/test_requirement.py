"""The words and the presets of ../shared/requirement/003, in a file, as flags and in Python."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from cli_runner import CliRunner

from posemill.commands.line import run_line
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
}
MEANT = {
    "high-performance": (64, 64, 8, True, True, 2, "mixed"),
    "memory-limited": (32, 64, 8, True, True, 2, "mixed"),
    "extreme": (128, 128, 16, True, True, 4, "mixed"),
}


def meaning(config: TrainConfig) -> tuple[Any, ...]:
    names = ("micro_batch", "batch_size", "workers", "pin_memory", "persistent_workers",
             "prefetch_factor", "precision")  # fmt: skip
    return tuple(getattr(config, name) for name in names)


def settings_of(text: str) -> dict[str, Any]:
    pairs = (line.split("=") for line in text.split())
    return {name: {"True": True}.get(value) or int(value) for name, value in pairs}


@pytest.mark.parametrize("preset", WRITTEN)
def test_the_settings_of_the_requirement_mean_the_same_in_files_python_and_presets(
    preset, tmp_path
):
    path = tmp_path / "c.toml"
    path.write_text("\n".join(WRITTEN[preset].replace("True", "true").split()))
    settings = settings_of(WRITTEN[preset])
    for config in (
        TrainConfig(preset=preset, workers=MOST_WORKERS[preset]),
        resolve_config(path, memory_bytes=1 << 28).config,
        resolve_config(None, settings).config,
        TrainConfig(**settings),
        TrainConfig().replace(**settings),
    ):
        assert meaning(config) == MEANT[preset]


@pytest.mark.parametrize("command", ["train", "tune"])
@pytest.mark.parametrize("preset", WRITTEN)
def test_the_settings_of_the_requirement_are_flags_as_they_are_written(
    preset, command, monkeypatch
):
    seen: list[Any] = []

    def look(*arguments: Any) -> Any:
        seen.append(arguments[-1])
        raise KeyboardInterrupt

    called = {"train": "front.train", "tune": "tuning.tune.tune_training"}
    monkeypatch.setattr(f"posemill.training.{called[command]}", look)
    words = [command]
    for name, value in settings_of(WRITTEN[preset]).items():
        words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    result = CliRunner().invoke(run_line, words)
    assert "next version" not in result.output
    assert "is now" not in result.output
    assert meaning(seen[0].config) == MEANT[preset]


def test_accumulation_steps_and_max_grad_norm_are_understood_everywhere(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text("ims_per_gpu = 16\naccumulation_steps = 4\nmax_grad_norm = 0.5\n")
    words = ["train", "--ims_per_gpu", "16", "--accumulation_steps", "4", "--max_grad_norm", "0.5"]
    result = CliRunner().invoke(run_line, [*words, "--show-config", "--json"])
    assert (result.exit_code, result.stderr) == (0, "")
    from_flags = {row["name"]: row["value"] for row in json.loads(result.stdout)}
    in_python = TrainConfig(ims_per_gpu=16, accumulation_steps=4, max_grad_norm=0.5)
    for found in (resolve_config(path).config.to_dict(), from_flags, in_python.to_dict()):
        named = {name: found[name] for name in ("micro_batch", "batch_size", "clip_grad_norm")}
        assert named == {"micro_batch": 16, "batch_size": 64, "clip_grad_norm": 0.5}


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
    words = ["train", "--use_fp16", "--device", "cpu", "--show-config", "--json"]
    result = CliRunner().invoke(run_line, words)
    assert (result.exit_code, result.stderr) == (0, "")
    rows = {row["name"]: row for row in json.loads(result.stdout)}
    assert rows["precision"]["value"] == name
    assert rows["precision"]["source"] == f"machine: {reason}"
    off = CliRunner().invoke(run_line, ["train", "--no-use-fp16", "--show-config"])
    assert 'precision = "fp32" ' in off.stdout


def test_eval_scales_is_a_setting_of_video_and_says_what_else_there_is():
    said = CliRunner().invoke(run_line, ["train", "--eval_scales", "0.5,1", "--show-config"])
    assert "eval_scales = [0.5, 1.0]" in said.stdout
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
    sizes: list[int] = []
    network: Any = model.backbone
    network.register_forward_pre_hook(lambda _, given: sizes.append(given[0].shape[-1]))

    def said(*scales: float) -> Any:
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
