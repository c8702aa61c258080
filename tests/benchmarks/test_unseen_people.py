"""The table of unseen people: a row for people left out, one for a set with a test split."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from benchmarks.training import unseen_people
from posemill.training.front import train

LENGTH = 6


def write_clips(path: Path, names: list[str]) -> None:
    points = np.random.default_rng(0).random((LENGTH * len(names), 17, 3), np.float32)
    np.savez(path, keypoints=points, lengths=np.full(len(names), LENGTH), clip_ids=np.array(names))


def test_each_person_and_each_set_gets_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"{who}-{label}-{number}" for who in ("an", "bo") for label in "xy"
             for number in range(3)]  # fmt: skip
    rows = ["clip_id,label,signer", *(f"{n},{n.split('-')[1]},{n.split('-')[0]}" for n in names)]
    labels, tested = tmp_path / "labels.csv", tmp_path / "tested"
    labels.write_text("\n".join(rows) + "\n")
    write_clips(tmp_path / "all.npz", names)
    tested.mkdir()
    for split in ("train", "dev", "test"):
        write_clips(tested / f"{split}_keypoints.npz", names)
    monkeypatch.setattr(sys, "argv", [
        "unseen_people", "--data", str(tmp_path / "all.npz"), "--labels", str(labels), "--models",
        "mlp", "--epochs", "1", "--tested", f"same={tested},{labels}", "--json",
    ])  # fmt: skip
    quick = partial(train, mode="single", threads=1, figures=False, tensorboard=False, workers=0)
    monkeypatch.setattr(unseen_people, "train", quick)
    unseen_people.main()
    said = capsys.readouterr()
    assert {"an", "bo"} <= {line.split()[2] for line in said.err.splitlines() if "unseen" in line}
    found = json.loads(said.out)
    assert set(found) >= {"mlp_unseen", "mlp_same"}
