import json
import re
import shutil
import sqlite3
import struct
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path

import cv2
import numpy as np
import pytest
from made_up_people import make_person, write_run

import posemill
from posemill.clips.inputs import ClipInput
from posemill.records import OtherPeople, PersonIds, PoseClip
from posemill.runs.manifest import Manifest
from posemill.web import clip_data, media
from posemill.web.describing import continue_arguments, read_speeds, row_of
from posemill.web.library import ClipAddress, Entry, Library
from posemill.web.measuring import fill


def test_home_lists_every_run_and_says_why_a_broken_one_is_broken(client):
    rows = {row["name"]: row for row in client.get("/api/runs").json()["runs"]}
    assert rows["fake"]["state"] == "finished"
    assert (rows["fake"]["done"], rows["fake"]["total"]) == (15, 15)
    assert rows["fake"]["frames_failed"] == 1
    assert rows["prepared"]["kind"] == "prepared"
    assert (rows["prepared"]["clips"], rows["prepared"]["total"]) == (3, 14)
    assert rows["broken/not_json"]["state"] == "broken"
    assert "manifest.json is not the manifest" in rows["broken/not_json"]["reason"]
    assert "run format 99" in rows["broken/of_the_future"]["reason"]
    assert rows["broken/hostile"]["state"] == "broken"


def test_an_extraction_shows_splits_reasons_log_and_the_command_that_continues_it(
    client, entry_of, tree
):
    entry = entry_of("fake")
    run = client.get(f"/api/runs/{entry.key}").json()
    assert {each["in_flight"] for each in run["splits"]} == {0}
    assert [(each["split"], each["frames_out"]) for each in run["splits"]] == [
        ("train", 9), ("dev", 5),
    ]  # fmt: skip
    (reason,) = run["reasons"]
    failed = client.get(f"/api/runs/{entry.key}/failures", params={"reason": reason["reason"]})
    assert [Path(row["path"]).name for row in failed.json()] == ["2.png"]
    (end,) = (line for line in run["log"] if "finished: " in line)
    assert f" {run['mean_rate']:.1f} frames/s" in end
    words = run["command"].split()
    assert words[:2] == ["posemill", "extract"]
    assert words[words.index("--dataset-path") + 1] == str(tree)
    assert words[words.index("--engine") + 1] == "fake"
    # The very command goes on with the run, and finds nothing left to do.
    from cli_runner import CliRunner

    from posemill.commands.line import run_line

    again = CliRunner().invoke(run_line, [*words[1:], "--executor", "serial"])
    assert again.exit_code == 1  # a frame failed before, and stays so
    assert "truncated" in again.output or "cannot be read" in again.output


@pytest.mark.parametrize(
    ("kind", "path", "begins"),
    [
        ("extract", "films", ["extract"]),
        ("import", "points.pkl", []),
        ("extract", None, []),
        ("merge", ["a", "b"], []),
    ],
)
def test_only_an_extraction_of_a_known_source_can_be_continued_by_a_command(
    tmp_path, kind, path, begins
):
    made = Manifest("holistic-543", kind, {"engine": "fake"}, source={"path": path})
    assert continue_arguments(tmp_path, made)[:1] == begins


def test_speeds_come_from_the_lines_of_progress_in_the_log(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "coordinator.log").write_text(
        "2026-11-16T23:00:00+00:00 start: pid 3, 1 process\n"
        "2026-11-16T23:00:10+00:00 progress: 120/500 frames (24.0%), 12.5 frames/s, 0:00:30 left, "
        "0 failed\n"
        "2026-11-16T23:00:11+00:00 progress: 3/4 frames, …, 0 failed\n"
    )
    assert read_speeds(tmp_path) == [("2026-11-16T23:00:10+00:00", 120, 12.5)]


def ids_of(client, path, **question):
    answer = client.get(f"{path}/clips", params=question).json()
    assert answer["is_ready"]
    return [clip["clip_id"] for clip in answer["clips"]]


def test_clips_are_searched_filtered_sorted_and_paged(client, entry_of):
    path = f"/api/runs/{entry_of('fake').key}"
    ids = partial(ids_of, client, path)
    assert ids(sort="order") == ["a", "b", "c"]
    assert ids(split="dev") == ["c"]
    assert ids(search="B") == ["b"]
    assert ids(search="%") == []
    assert ids(failed="1") == ["b"]
    assert ids(sort="failed")[0] == "b"
    assert ids(sort="frames") == ["a", "c", "b"]
    assert ids(limit=1, offset=1, sort="order") == ["b"]
    assert client.get(f"{path}/choices").json()["splits"] == [["dev", 1], ["train", 2]]
    wrong = client.get(f"{path}/clips", params={"sort": "clip_no; DROP TABLE clips"})
    assert wrong.status_code == 404
    assert wrong.json()["reason"].startswith("sort: expected one of order")
    wrong = client.get(f"{path}/clips", params={"part": "tail", "missing": "0.5"})
    assert wrong.json()["reason"] == "no part 'tail'; there are pose, face, left_hand, right_hand"
    wrong = client.get(f"{path}/clips", params={"missing": "nan"})
    assert wrong.json()["reason"] == "missing: expected a number, got 'nan'"


def test_the_worst_clip_comes_first_unless_asked_otherwise(client, entry_of):
    ids = partial(ids_of, client, f"/api/runs/{entry_of('good and bad').key}")
    assert ids() == ["nobody", "fine"]
    assert ids(sort="order") == ["fine", "nobody"]
    assert ids(sort="missing") == ["nobody", "fine"]  # by the part that is missing most
    assert ids(sort="missing", part="face") == ["nobody", "fine"]
    assert ids(part="face", missing="0.5") == ["nobody"]


def test_a_clip_and_its_points_are_those_of_the_run(client, entry_of):
    entry = entry_of("people")
    name = {"split": "train", "id": "swaying"}
    (row,) = client.get(f"/api/runs/{entry.key}/clips", params={"label": "hello"}).json()["clips"]
    assert row["clip_id"] == "swaying"
    assert row["missing"] == dict.fromkeys(("pose", "face", "left_hand", "right_hand"), 0)
    for question in ({"part": "face", "missing": "0.1"}, {"jumps": 1}):
        assert client.get(f"/api/runs/{entry.key}/clips", params=question).json()["total"] == 0
    meta = client.get(f"/api/runs/{entry.key}/clip", params=name).json()
    assert (meta["num_frames"], meta["label"]) == (40, "hello")
    scripts = (Path(posemill.__file__).parent / "web" / "static").glob("*.js")
    read = [re.findall(r"\bmeta\.(\w+)", path.read_text(encoding="utf-8")) for path in scripts]
    assert {*chain(*read)} <= {*meta}
    assert meta["skeleton"]["num_points"] == 543
    assert meta["present"][0] == [255] * 40
    answer = client.get(f"/api/runs/{entry.key}/points", params={**name, "start": 7, "count": 3})
    points = np.frombuffer(answer.content, "<f4").reshape(3, 543, 3)
    clip = posemill.open_run(entry.folder)["train", "swaying"]
    assert np.array_equal(points[..., :2], clip.points[7:10, :, :2])
    assert np.array_equal(points[..., 2], clip.scores[7:10])
    gone = client.get(f"/api/runs/{entry.key}/points", params={**name, "start": 40})
    assert gone.status_code == 404
    assert gone.json()["reason"] == "clip 'swaying' has no frame 40"


def test_a_window_begins_and_ends_in_any_piece_of_a_clip(entry_of, monkeypatch):
    address = ClipAddress(entry_of("people"), "train", "swaying")
    (row,) = clip_data._rows_of(address)
    lengths = (15, 5, 20)
    pieces = [
        row._replace(offset=row.offset + sum(lengths[:number]), num_rows=length)
        for number, length in enumerate(lengths)
    ]
    monkeypatch.setattr(clip_data, "_rows_of", lambda _: pieces)
    for start, count in ((0, 40), (3, 4), (10, 8), (14, 30), (16, 2), (39, 9)):
        window = clip_data.read_window(address, start, count)
        assert window.frame_indices.tolist() == list(range(start, min(start + count, 40)))


def test_the_people_of_a_window_come_with_their_ids(client, entry_of):
    points = np.arange(5 * 17 * 3, dtype=np.float32).reshape(5, 17, 3)
    scores = np.full((5, 17), 0.5, np.float32)
    ids = PersonIds(np.array([3, 1]), np.array([1, 2, 3]))
    others = OtherPeople(np.array([1, 2]), points[2:], scores[2:], ids=ids)
    clip = PoseClip(points[:2], scores[:2], np.full((2, 2), 9, np.int32), "coco-17", others=others)
    packed = clip_data.pack_people(clip)
    assert np.frombuffer(packed[: 4 * 9], np.int32).tolist() == [2, 3, 1, 2, 3, 1, 1, 2, 3]
    sent = np.frombuffer(packed[4 * 9 :], np.float32).reshape(3, 17, 3)
    np.testing.assert_array_equal(sent[..., :2], points[2:, :, :2])
    assert (sent[..., 2] == 0.5).all()
    path = f"/api/runs/{entry_of('people').key}"
    name = {"split": "train", "id": "swaying"}
    assert not client.get(f"{path}/clip", params=name).json()["has_people"]
    answer = client.get(f"{path}/people", params={**name, "start": 7, "count": 3})
    assert np.frombuffer(answer.content, np.int32).tolist() == [3, 0, *[0] * 6]


def test_clips_of_prepared_data_are_shown_too(client, entry_of):
    entry = entry_of("prepared")
    answer = client.get(f"/api/runs/{entry.key}/clips", params={"split": "dev"}).json()
    assert [clip["clip_id"] for clip in answer["clips"]] == ["c"]
    meta = client.get(f"/api/runs/{entry.key}/clip", params={"split": "dev", "id": "c"}).json()
    assert meta["num_frames"] == 5
    assert meta["skeleton"]["name"] == "holistic-143"
    gone = client.get(f"/api/runs/{entry.key}/clip", params={"split": "../dev", "id": "c"})
    assert gone.json()["reason"] == "there is no split '../dev'"


def test_two_runs_of_a_clip_are_compared_frame_by_frame(client, entry_of):
    one, other = entry_of("people"), entry_of("others")
    question = {"split": "train", "id": "swaying", "other": other.key}
    found = client.get(f"/api/runs/{one.key}/compare", params=question).json()
    # One sways by 0.002, the other by 0.003 of 320 pixels a frame.
    assert found["distances"] == pytest.approx([0.32 * frame for frame in range(40)], abs=1e-3)
    assert found["rows"] == list(range(40))
    assert found["parts"]["face"]["agree"] == 1
    # Only runs that have the clip are offered.
    offered = client.get(f"/api/runs/{one.key}/others", params=question).json()
    assert [each["name"] for each in offered] == ["every third", "others"]
    assert offered[1]["key"] == other.key
    path = f"/api/runs/{entry_of('fake').key}/others"
    assert client.get(path, params={"split": "train", "id": "a"}).json() == []


@pytest.mark.parametrize("stats", [{"num_clips": "many"}, {"num_frames": [1], "skeleton": ["a"]}])
def test_prepared_data_with_statistics_of_another_maker_is_shown_without_them(stats, tmp_path):
    posemill.prepare(write_run(tmp_path / "run", make_person(4)), tmp_path / "data", progress=False)
    (path,) = (tmp_path / "data").glob("*_stats.json")
    path.write_text(json.dumps(stats))
    row = row_of(Entry("key", "prepared", "data", tmp_path / "data"))
    assert [row[name] for name in ("state", "clips", "total")] == ["finished", None, None]
    assert row["skeleton"] == ""


def test_clips_of_a_split_that_was_prepared_anew_keep_their_names_and_numbers(tmp_path):
    table = tmp_path / "table.sqlite"
    for number, (split, names) in enumerate((("dev", "a"), ("train", "bc"), ("dev", "xyz"))):
        people = [
            make_person(4, clip_id=name, split=split, label=f"{split} {name}") for name in names
        ]
        run = write_run(tmp_path / f"run{number}", *people, kind="import")
        posemill.prepare(run, tmp_path / "data", overwrite=True, progress=False)
        fill(tmp_path / "data", table)
    with closing(sqlite3.connect(table)) as database:
        found = sorted(database.execute("SELECT split, clip_id, label, measured = mark FROM clips"))
    expected = {"dev": "xyz", "train": "bc"}
    assert found == [(split, name, f"{split} {name}", 1) for split in expected for name in
                     expected[split]]  # fmt: skip


def test_pictures_come_from_a_process_of_their_own_in_the_order_of_the_frames(
    client, entry_of, tree
):
    question = {"split": "train", "id": "b", "start": 0, "count": 3, "side": 64}
    answer = client.get(f"/api/runs/{entry_of('fake').key}/frames", params=question)
    count, *sizes = struct.unpack("<4I", answer.content[:16])
    assert count == 3
    assert all(sizes)
    jpeg = np.frombuffer(answer.content[16 : 16 + sizes[0]], np.uint8)
    got, wanted = cv2.imdecode(jpeg, 1), cv2.imread(str(tree / "train" / "b" / "0.png"))
    assert np.abs(got.astype(int) - wanted).mean() < 8


def test_a_clip_is_written_as_npz_pose_and_movie(entry_of, tmp_path):
    address = ClipAddress(entry_of("people"), "train", "swaying")
    for kind in ("npz", "pose", "mp4"):
        target = tmp_path / f"clip.{kind}"
        assert media.write_clip(address, kind, target) == 40
        assert target.stat().st_size > 1000
    saved = next(ClipInput(tmp_path / "clip.npz").clips())
    whole = clip_data.read_whole(address, 100)
    assert np.allclose(saved.points, whole.points, equal_nan=True)


def test_a_download_is_named_after_the_clip_and_its_temporary_file_goes(
    client, entry_of, tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    question = {"split": "train", "id": "a", "as": "npz"}
    answer = client.get(f"/api/runs/{entry_of('fake').key}/file", params=question)
    assert answer.headers["content-disposition"] == 'attachment; filename="train_a.npz"'
    assert answer.content[:2] == b"PK"
    assert not list(tmp_path.glob("posemill_serve_*"))
    wrong = client.get(f"/api/runs/{entry_of('fake').key}/file", params={"as": "exe"})
    assert wrong.json()["reason"] == "as: expected mp4 | pose | npz, got 'exe'"


def test_runs_are_found_until_they_are_gone_and_not_by_links(tmp_path, runs, monkeypatch):
    def names(library):
        library.look()
        return [entry.name for entry in library.entries()]

    library = Library([tmp_path])
    assert names(library) == []
    shutil.copytree(runs / "fake", tmp_path / "deep" / "down")
    assert names(library) == ["deep/down"]
    beside = {each.name for parent in tmp_path.parents for each in parent.iterdir()}
    monkeypatch.setattr("posemill.web.library._LEFT_OUT", beside.difference(tmp_path.parts))
    assert names(Library([Path("/")])) == [f"{tmp_path}/deep/down"[1:]]
    shutil.rmtree(tmp_path / "deep")
    (tmp_path / "link").symlink_to(runs, target_is_directory=True)
    assert names(library) == []
    # The folder that was asked for may be a link itself.
    assert "fake" in names(Library([tmp_path / "link"]))
