"""The table of unseen people: a row for people left out, one for a set with a test split."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from benchmarks.training import unseen_people


def train(**settings: Any) -> SimpleNamespace:
    """Stand for a training: what `posemill train` gives back, with a score by its seed."""
    assert (settings["model"], settings["epochs"], settings["progress"]) == ("mlp", 7, False)
    score = settings["seed"] / 10
    if "leave_out" not in settings:
        assert (settings["data"], settings["labels"]) == ("tested", "their_labels.csv")
        return SimpleNamespace(scores={"test": {"accuracy": score}})
    assert (settings["data"], settings["labels"]) == ("all.npz", "labels.csv")
    assert settings["leave_out"] == "signer"
    groups = [{"group": "an", "accuracy": score}, {"group": "bo", "accuracy": score + 0.5},
              {"group": "cy"}]  # fmt: skip
    return SimpleNamespace(summary={"score": "accuracy", "groups": groups})


def test_each_person_and_each_set_gets_a_row(monkeypatch, capsys):
    monkeypatch.setattr(unseen_people, "train", train)
    monkeypatch.setattr(sys, "argv", [
        "unseen_people", "--data", "all.npz", "--labels", "labels.csv", "--models", "mlp",
        "--epochs", "7", "--seeds", "1", "3", "--tested", "same=tested,their_labels.csv", "--json",
    ])  # fmt: skip
    unseen_people.main()
    said = capsys.readouterr()
    lines = [line.split() for line in said.err.splitlines() if line.startswith("mlp")]
    assert [line[1:4] for line in lines] == [
        ["unseen", "an", "0.200"], ["unseen", "bo", "0.700"], ["same", "same", "0"],
    ]  # fmt: skip
    rows = json.loads(said.out)
    assert rows["mlp_unseen"]["value"] == pytest.approx(0.45), "the mean of two people, two seeds"
    assert (rows["mlp_unseen"]["low"], rows["mlp_unseen"]["high"]) == pytest.approx((0.2, 0.7))
    assert rows["mlp_unseen"]["note"] == "worst: an"
    assert rows["mlp_same"]["value"] == pytest.approx(0.2)
