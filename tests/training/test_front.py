"""What a training is told by file, by settings and by a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from posemill.errors import ConfigError
from posemill.training import front
from posemill.training.config.train_config import TrainConfig
from posemill.training.launch import start


class Recorder:
    """Stands in for the function behind a call: keeps what it is given, returns itself."""

    args: tuple[Any, ...]

    def __call__(self, *args: Any) -> Recorder:
        self.args = args
        return self


@pytest.fixture
def behind(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr(start, "train", recorder)
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
    (resolved,) = behind.args
    assert resolved.config == config
    with pytest.raises(ConfigError, match="a TrainConfig says everything; lr, epochs came beside"):
        front.train(config, lr=1.0, epochs=3)
