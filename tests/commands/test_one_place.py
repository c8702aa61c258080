"""An option of a command is added in one place; so is a format."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from cli_runner import call
from made_up_people import make_person, write_run

from posemill.commands import data, line
from posemill.commands.declaring import checked
from posemill.errors import ConfigError
from posemill.formats.shared.contract import ClipStream, Format, Size
from posemill.records import PoseClip

OPTION = """
    limit: Annotated[int, setting("Stop after so many clips.", least=1)] = 0,
    overwrite: Overwrite = False,"""


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "run", make_person(2, skeleton_name="openpose-18", clip_id="a"))


@pytest.fixture
def changed(monkeypatch):
    """The module of `prepare` with one more line: an option."""
    before, name, after = inspect.getsource(data).partition("def prepare(")
    after = after.replace("\n    overwrite: Overwrite = False,", OPTION, 1)
    module = ModuleType("changed_data")
    monkeypatch.setitem(sys.modules, "changed_data", module)
    exec(compile(before + name + after, "changed_data.py", "exec"), vars(module))
    monkeypatch.setattr(line, "MODULES", ("changed_data",))
    return module


def test_a_new_parameter_of_prepare_is_a_flag_a_keyword_and_a_line_of_its_help(
    changed, run, tmp_path
):
    assert "--limit <int>" in call("prepare", "--help").stdout
    words = ["prepare", run, "--out", tmp_path / "a", "--skeleton", "openpose-18"]
    assert call(*words, "--limit", "3").exit_code == 0
    wrong = call(*words, "--limit", "0")
    assert isinstance(wrong.exception, ConfigError)
    assert "limit: expected at least 1, got 0" in str(wrong.exception)
    prepare = checked(changed.prepare)
    for line_of_help in ("limit: Stop after so many clips.", "interpolate: Close gaps of up to N"):
        assert line_of_help in (prepare.__doc__ or "")
    prepare(run, tmp_path / "b", limit=2, skeleton="openpose-18")
    with pytest.raises(ConfigError, match=r"^limit: expected at least 1, got 0$"):
        prepare(run, tmp_path / "c", limit=0)
    with pytest.raises(TypeError, match="did you mean 'limit'"):
        prepare(run, tmp_path / "c", limits=2)


class WordsFormat(Format):
    """A format of one file: how many frames each clip has."""

    name = "words"
    suffix = ".words"
    layouts: tuple[str, ...] = ("openpose-18",)
    losses: tuple[str, ...] = ("all keypoints",)

    def sniff(self, path: Path) -> bool:
        """Return True for its ending."""
        return path.suffix == self.suffix

    def write_clips(self, clips: ClipStream, path: Path) -> None:
        """Write a line for each clip."""
        path.write_text("\n".join(f"{clip.clip_id} {len(clip)}" for clip in clips))

    def read_clips(self, path: Path, size_wh: Size | None) -> Iterator[PoseClip]:
        """Yield nothing."""
        return iter(())


def test_a_new_format_is_one_file_and_a_row(run, tmp_path, monkeypatch):
    from posemill import formats

    row = {"words": f"{__name__}:WordsFormat"}
    monkeypatch.setattr(formats, "FORMATS", formats.FORMATS | row)
    result = call("export", run, "--out", tmp_path / "a.words")
    assert result.exit_code == 0, result.exception
    assert (tmp_path / "a.words").read_text() == "a 2"
    assert "words" in call("export", "--help").stdout
