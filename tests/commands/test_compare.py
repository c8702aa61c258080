"""`posemill compare`, in process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_runner import call
from made_up_people import make_person

from posemill.runs.manifest import Manifest
from posemill.runs.writer import RunWriter


def write(folder: Path, clip_ids: str, *, missing: tuple[str, ...] = ()) -> Path:
    with RunWriter(folder, Manifest("holistic-543", engine={"engine": folder.name})) as writer:
        for number, clip_id in enumerate(clip_ids):
            split = "dev" if number == 1 else "train"
            writer.add(make_person(4, clip_id=clip_id, split=split, missing=missing))
    return folder


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    one = write(tmp_path / "one", "ab")
    return str(one), str(write(tmp_path / "two", "abc", missing=("face",)))


def test_a_table_says_agreement_and_distance_of_every_part(pair: tuple[str, str]) -> None:
    result = call("compare", *pair)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == f"{pair[0]}  run  holistic-543  one"
    assert lines[2] == "2 clips and 8 frames in both, compared in 543 points of holistic-543"
    rows = {tuple(line.split()[:2]): line.split()[2:] for line in lines[5:]}
    assert rows["dev", "face"] == ["4", "4", "0", "0.0000", "-", "-", "-"]
    assert rows["total", "pose"] == ["8", "8", "8", "1.0000", "0", "0", "0"]
    assert result.stderr == f"note: 1 clip in {pair[1]} only, not compared: train/c\n"


def test_json_and_a_page_of_one_split(pair: tuple[str, str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    words = ("--json", "--out", page, "--splits", "dev", "--skeleton", "143")
    result = call("compare", *pair, *words)
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert [each["split"] for each in found["splits"]] == ["dev"]
    assert (found["skeleton_name"], found["page"]) == ("holistic-143", str(page))
    assert found["splits"][0]["parts"]["left_hand"]["median"] == 0
    assert page.is_file()
    assert "original pictures could not be read" in result.stderr


def test_the_parts_have_chinese_names_for_chinese_readers(
    pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSEMILL_LANG", "zh")
    out = call("compare", *pair).stdout
    assert "左手" in out
    assert "left hand" not in out
