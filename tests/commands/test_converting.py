import json

import numpy as np
import pytest

import posemill
from posemill.commands import data
from tests.runs.conftest import change_ledger


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


def test_merge_joins_runs(run, tree, tmp_path):
    other = posemill.extract(
        tree, tmp_path / "dev", splits=["dev"], engine="fake", executor="serial", mode="video"
    )
    merged = posemill.merge([run, other], out=tmp_path / "all")
    assert (merged.num_clips, merged.equal_duplicates) == (3, 1)
    alone = posemill.merge(str(run), tmp_path / "other")  # one path, not its letters
    assert posemill.open_run(alone).num_frames == posemill.open_run(merged).num_frames == 15


def test_a_run_that_is_not_finished_is_used_with_a_warning_that_names_what_is_cut_and_missing(
    run, tmp_path, monkeypatch
):
    def alter(*statements):
        for statement, *values in statements:
            change_ledger(run, statement, *values)

    def warned(splits):
        with pytest.warns(UserWarning, match="is not finished; what it holds so far is") as seen:
            posemill.prepare(run, tmp_path / "data", splits=splits)
        assert seen[0].filename == __file__  # where the user called, not where we warn
        return str(seen[0].message)

    cut, missing = posemill.open_run(run).clip_ids("train")
    number = "WHERE clip_no = (SELECT clip_no FROM clips WHERE split = 'train' AND clip_id = ?)"
    alter(("DELETE FROM meta WHERE key = 'finished_at'",))
    assert warned("train").endswith(f"so far is used; look: posemill status {run}")
    alter(
        (f"DELETE FROM pieces {number}", missing),
        (f"UPDATE clips SET num_frames = 9 {number}", cut),
    )
    monkeypatch.setattr(data, "_NAMED", 1)
    assert f"; 1 clip is cut: {cut}; 1 clip is missing: {missing}; look: " in warned("train")
    assert "so far is used; look: posemill status" in warned("dev")
    monkeypatch.setattr(data, "_NAMED", 0)
    assert "; 1 clip is cut: …; 1 clip is missing: …; look: " in warned("train")


def test_a_file_without_an_ending_gets_that_of_its_format(run, tmp_path):
    for form, name, written in (
        ("npz", "points", "points.npz"),
        ("txt", "texts", "texts"),
        ("npz", "a.data", "a.data"),
    ):
        assert posemill.export(run, form, tmp_path / name).path == tmp_path / written


def test_a_view_is_plain_values(run):
    found = posemill.view(str(run), splits="train", detailed=True, rows=1)
    assert found["splits"][0]["num_frames"] == 10
    assert [each["clip_id"] for each in found["clips"]] == ["a", "b"]
    assert json.loads(json.dumps(found)) == found


def test_pictures_and_pages_are_named_and_originals_that_are_gone_are_counted(run, tmp_path):
    drawn = posemill.visualize(run, str(tmp_path / "pictures"), num_samples=1, clips="a")
    assert [path for path in drawn if path.is_file()] == list(drawn.paths)
    assert (len(drawn), drawn.num_originals_gone, drawn.notes) == (2, 0, ())
    page = posemill.report(str(run), str(tmp_path / "report.html"))
    assert page.paths == (tmp_path / "report.html",)
    (tmp_path / "tree").rename(tmp_path / "moved")
    drawn = posemill.visualize(run, tmp_path / "pictures", num_samples=1)
    assert drawn.num_originals_gone == 2
    assert "2 of 2 original pictures could not be read" in drawn.notes[0]
    drawn = posemill.visualize(
        run, tmp_path / "pictures", num_samples=1, originals=str(tmp_path / "moved")
    )
    assert drawn.num_originals_gone == 0
