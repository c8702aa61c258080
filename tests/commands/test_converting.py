"""`posemill.prepare`, `export`, `import_run` and `merge`, with plain words, on tiny data."""

from __future__ import annotations

import numpy as np
import pytest

import posemill
from posemill.commands import data


def test_prepare_writes_the_input_of_a_model(run, tmp_path):
    made = posemill.prepare(str(run), str(tmp_path / "data"), normalize="shoulders")
    assert [each.split for each in made] == ["train", "dev"]
    assert repr(made[0]).startswith("Prepared('train', 2 clips, 10 frames, ")
    with np.load(tmp_path / "data" / "train_keypoints.npz") as arrays:
        assert arrays["keypoints"].shape[1:] == (143, 3)
    # A single split is one name, not its letters; a run stands for its folder.
    (made,) = posemill.prepare(
        posemill.open_run(run), tmp_path / "data", splits="dev", skeleton=543
    )
    assert made.stats["num_frames"] == 5
    with np.load(made.path) as arrays:
        assert arrays["keypoints"].shape[1:] == (543, 3)


def test_export_and_import_go_round(run, tmp_path):
    written = posemill.export(run, to="pkl", out=tmp_path / "points.pkl", splits=["train"])
    assert (written.num_clips, written.num_frames) == (2, 10)
    assert any("picture sizes" in loss for loss in written.losses)
    came = posemill.import_run(str(tmp_path / "points.pkl"), str(tmp_path / "back"), size="64x48")
    assert came.run.skeleton_name == "holistic-143"
    np.testing.assert_allclose(
        came.run["a"].points, posemill.open_run(run)["a"].as_skeleton("holistic-143").points
    )
    counted = posemill.import_run(tmp_path / "points.pkl", tmp_path / "no", dry_run=True)
    assert counted.num_frames == 10
    assert not (tmp_path / "no").exists()


def test_merge_joins_runs(run, tree, tmp_path):
    other = posemill.extract(
        tree, tmp_path / "dev", splits=["dev"], engine="fake", executor="serial", mode="video"
    )
    merged = posemill.merge([run, other], out=tmp_path / "all")
    assert (merged.num_clips, merged.equal_duplicates) == (3, 1)
    assert posemill.open_run(merged).num_frames == 15
    alone = posemill.merge(str(run), tmp_path / "other")  # one path, not its letters
    assert posemill.open_run(alone).num_frames == 15


def test_a_run_that_is_not_finished_is_used_with_a_warning(run, tmp_path):
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(run / "ledger.sqlite")) as ledger, ledger:
        ledger.execute("DELETE FROM meta WHERE key = 'finished_at'")
    with pytest.warns(UserWarning, match="is not finished; what it holds so far is used") as seen:
        posemill.export(run, "txt", tmp_path / "points.txt")
    assert seen[0].filename == __file__  # where the user called, not where we warn
    assert str(seen[0].message).endswith(f"look: posemill status {run}")


def test_the_warning_about_an_unfinished_run_names_what_is_cut_and_what_is_missing(
    run, tmp_path, monkeypatch
):
    import sqlite3
    from contextlib import closing

    monkeypatch.setattr(data, "_NAMED", 1)

    clips = posemill.open_run(run).clip_ids("train")
    with closing(sqlite3.connect(run / "ledger.sqlite")) as ledger, ledger:
        ledger.execute("DELETE FROM meta WHERE key = 'finished_at'")
        number = "(SELECT clip_no FROM clips WHERE split = 'train' AND clip_id = ?)"
        ledger.execute(f"DELETE FROM pieces WHERE clip_no = {number}", clips[:1])
        ledger.execute(f"UPDATE clips SET num_frames = 9 WHERE clip_no = {number}", clips[1:])
    with pytest.warns(UserWarning, match="is not finished") as seen:
        posemill.prepare(run, tmp_path / "data", splits="train")
    said = str(seen[0].message)
    assert f"; 1 clip is cut: {clips[1]}; 1 clip is missing: {clips[0]}; look: " in said
    with pytest.warns(UserWarning, match="so far is used; look: posemill status"):
        posemill.prepare(run, tmp_path / "data", splits="dev")
    monkeypatch.setattr(data, "_NAMED", 0)
    with pytest.warns(UserWarning, match="; 1 clip is cut: …; 1 clip is missing: …; look: "):
        posemill.prepare(run, tmp_path / "data", splits="train")


def test_a_file_without_an_ending_gets_that_of_its_format(run, tmp_path):
    assert posemill.export(run, "npz", tmp_path / "points").path == tmp_path / "points.npz"
    assert posemill.export(run, "txt", tmp_path / "texts").path == tmp_path / "texts"
    assert posemill.export(run, "npz", tmp_path / "a.data").path == tmp_path / "a.data"
