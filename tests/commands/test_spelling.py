"""Messages name keywords to whoever calls a function, and flags to whoever gave them."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import posemill
from posemill.errors import ConfigError, FormatError, SourceError


def test_functions_say_keywords(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[]")
    with pytest.raises(FormatError, match=r"name it by from_format$"):
        posemill.view(tmp_path / "a.json")
    (tmp_path / "both").mkdir()
    (tmp_path / "both" / "a.mp4").touch()
    (tmp_path / "both" / "a.png").touch()
    with pytest.raises(SourceError, match=r'say which: layout="videos", layout="frames" or'):
        posemill.extract(tmp_path / "both", out=tmp_path / "run")
    with pytest.raises(ConfigError, match=r"^size: expected"):
        posemill.view(tmp_path / "a.json", size="1x")


@pytest.mark.parametrize(("function", "keyword", "said"), [
    ("prepare", "skeletons", "prepare() has no keyword 'skeletons'; did you mean 'skeleton'?"),
    ("view", "zzz", "view() has no keyword 'zzz'; it takes: run, detailed, rows,"),
    ("evaluate", "checkpont", "evaluate() has no keyword 'checkpont'; did you mean 'checkpoint'?"),
])  # fmt: skip
def test_a_wrong_keyword_of_a_function_names_the_nearest(
    function: str, keyword: str, said: str
) -> None:
    with pytest.raises(TypeError) as caught:
        getattr(posemill, function)("nowhere", **{keyword: 1})
    assert str(caught.value).startswith(said)


def test_a_function_is_found_again_by_another_process() -> None:
    for name in posemill.__all__:
        value = getattr(posemill, name)
        if inspect.isfunction(value):
            assert pickle.loads(pickle.dumps(value)) is value
            assert value.__doc__
            assert "keywords" not in inspect.signature(value).parameters


def test_commands_say_flags_and_a_file_its_settings(tmp_path: Path) -> None:
    def said(*arguments: object) -> str:
        command = [sys.executable, "-m", "posemill", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        return done.stderr

    assert said("view", tmp_path, "--size", "1x").startswith("posemill: --size: expected WIDTH")
    assert said("train", "--epochs", "-1", "--out", "x").startswith("posemill: --epochs: expected")
    (tmp_path / "a.toml").write_text("epochs = -1\n")
    assert "posemill: epochs: expected" in said("train", tmp_path / "a.toml", "--out", "x")
