"""The public calls hand everything on, and give back what they get."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from posemill.errors import ConfigError
from posemill.training import front
from posemill.training.config.resolve import resolve_config
from posemill.training.config.train_config import TrainConfig
from posemill.training.launch import fit, start
from posemill.training.runs import inference


class Recorder:
    """Stands in for the function behind a call: keeps what it is given, returns itself."""

    args: tuple[Any, ...]
    options: dict[str, Any]

    def __call__(self, *args: Any, **options: Any) -> Recorder:
        self.args, self.options = args, options
        return self


@pytest.fixture
def behind(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    doors = {
        start: ("train",),
        fit: ("fit",),
        inference: ("load_model", "evaluate", "predict", "data_of"),
    }
    for module, names in doors.items():
        for name in names:
            monkeypatch.setattr(module, name, recorder)
    return recorder


def test_settings_alone_become_a_configuration(behind: Recorder) -> None:
    assert front.train(epochs=7) is behind
    (resolved,) = behind.args
    assert (resolved.config.epochs, resolved.sources["epochs"]) == (7, "flag")


@pytest.mark.parametrize("as_text", [True, False])
def test_settings_go_on_top_of_a_file(behind: Recorder, tmp_path: Path, as_text: bool) -> None:
    path = tmp_path / "a.toml"
    path.write_text("epochs = 5\nbatch_size = 9\n")
    assert front.train(str(path) if as_text else path, epochs=6) is behind
    (resolved,) = behind.args
    assert (resolved.config.epochs, resolved.config.batch_size) == (6, 9)


def test_a_whole_configuration_is_handed_on_and_takes_nothing_beside_it(behind: Recorder) -> None:
    config = TrainConfig(epochs=2)
    assert front.train(config) is behind
    assert behind.args == (config,)
    with pytest.raises(ConfigError, match="a TrainConfig says everything; lr, epochs came beside"):
        front.train(config, lr=1.0, epochs=3)


def test_fit_hands_on_everything(behind: Recorder) -> None:
    model: Any = object()
    options = {
        "loss": max, "metric": min, "metrics": {"a": min}, "choose_by": "a", "collate_fn": list,
        "forward": max, "scheduler_by": "step", "steps_per_epoch": 4, "draw_sample": max,
        "class_names": ("a", "b"),
    }  # fmt: skip
    rest = {"config": TrainConfig(), "optimizer": "sgd", "scheduler": sum, "loggers": ["wandb"]}
    calls = {"on_step": any, "on_evaluate": all, "on_epoch": len}
    assert front.fit(model, [1], [2], **options, **rest, **calls, epochs=3) is behind  # type: ignore[arg-type]
    assert behind.args == (model, [1], [2])
    assert behind.options == {
        "options": options, **rest, "callbacks": (any, all, len), "settings": {"epochs": 3},
    }  # fmt: skip


def test_the_calls_on_a_run_hand_on_their_options(behind: Recorder) -> None:
    def answer(call: Any, *args: Any, **options: Any) -> tuple[Any, ...]:
        assert call(*args, **options) is behind
        return behind.args, behind.options

    assert answer(front.load_model, "run") == (("run",), {"model": None, "checkpoint": "best"})
    given = {"model": 3, "checkpoint": "last"}
    assert answer(front.load_model, "run", **given)[1] == given
    usual = {"split": "test", "checkpoint": "best", "device": "auto", "data": "", "labels": ""}
    assert answer(front.evaluate, "run") == (("run",), usual)
    given = {"split": "dev", "checkpoint": "last", "device": "cpu", "data": "d", "labels": "l"}
    assert answer(front.evaluate, "run", **given)[1] == given
    usual = {"device": "auto", "pictures": None}
    assert answer(front.predict, "run", []) == (("run", []), usual)
    given = {"device": "cpu", "pictures": "there"}
    assert answer(front.predict, "run", [], **given)[1] == given
    assert answer(front.data_of, "run") == (("run",), {})


def test_the_machine_decides_what_is_left_to_it() -> None:
    settings = {"precision": "auto", "parallel": "single", "device": "cpu"}
    found = front.resolve_hardware(resolve_config(None, settings))
    assert found.config.precision in ("fp32", "bf16")
    assert found.config.device == "cpu"
