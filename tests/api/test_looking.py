"""What `posemill.view` gives, as it is printed."""

from __future__ import annotations

from posemill.api.looking import View


def view(**split: object) -> View:
    row = {"split": "train", "num_clips": 2, "num_frames": 9, "presence": {}, **split}
    return View(
        path="runs/a", kind="run", skeleton_names=["holistic-543", "coco-133"], splits=[row]
    )


def test_a_view_prints_a_line_for_each_split() -> None:
    assert repr(view()) == (
        "View of runs/a: run, holistic-543, coco-133\n  train: 2 clips, 9 frames"
    )
    presence = {"pose": 1.0, "face": 0.25, "left_hand": None}
    assert repr(view(presence=presence)).endswith("9 frames; pose 100.0%, face 25.0%")
    assert repr(view(frames_failed=3)).endswith("9 frames, 3 failed")
    assert repr(view(frames_failed=0, presence=presence)).endswith(
        "frames; pose 100.0%, face 25.0%"
    )
