"""Runs that were made here and put at a URI: `merge` and `import` with `--out s3://…`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import posemill
from posemill.errors import PlaceError, RunError
from posemill.places import open_place
from posemill.places.folders import FolderPlace
from posemill.records import PoseClip
from posemill.runs import publishing
from posemill.runs.manifest import Manifest
from posemill.runs.queries import Failure
from posemill.runs.reader import open_run
from posemill.runs.writer import RunWriter


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path / "machine-1"))


@pytest.fixture(params=["file", "s3"])
def uri(request, tmp_path):
    if request.param == "s3":
        return f"{request.getfixturevalue('s3_bucket')}/runs/all"
    return (tmp_path / "place" / "all").as_uri()


@pytest.fixture
def make_run(tmp_path):
    def make(name: str, *clip_ids: str, seed: int = 0) -> Path:
        rng = np.random.default_rng(seed)
        with RunWriter(tmp_path / name, Manifest("holistic-143")) as writer:
            for clip_id in clip_ids:
                points = rng.uniform(0.1, 0.9, (5, 143, 3)).astype(np.float32)
                writer.add(PoseClip(points, points[..., 0], np.full((5, 2), 64, np.int32),
                                    "holistic-143", clip_id=clip_id))  # fmt: skip
            writer.add_failure(Failure(f"{name}-lost", "all", None, 2, "x.mp4", "empty", "empty"))
        return tmp_path / name

    return make


def test_a_merge_at_a_uri_is_the_merge_of_a_disk_and_read_from_any_machine(
    uri, make_run, tmp_path, monkeypatch
):
    runs = [make_run("a", "one", "two"), make_run("b", "three", seed=1)]
    here = posemill.merge(runs, tmp_path / "here")
    monkeypatch.setattr(publishing, "_ROWS_PER_RECORD", 2)
    there = posemill.merge(runs, uri)
    assert (there.name, there.num_clips, there.num_failures) == (uri, 3, 2)
    monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path / "machine-2"))
    found = open_run(uri)
    assert found.is_finished
    assert found.counts == here.run.counts
    assert found.failures() == here.run.failures()
    assert found.table().equals(here.run.table())
    with pytest.raises(RunError, match=r"holds a run already; choose another place"):
        posemill.merge(runs, uri)
    assert not list((tmp_path / "machine-1").glob("merge-*"))


def test_a_file_becomes_a_run_at_a_uri(uri, make_run, tmp_path):
    posemill.export(make_run("a", "one"), out=tmp_path / "a.npz")
    assert posemill.import_run(tmp_path / "a.npz", uri).run.num_frames == 5


def test_a_merge_that_was_killed_leaves_no_run_and_nothing_of_it_stays(
    make_run, tmp_path, monkeypatch
):
    uri = (tmp_path / "place").as_uri()
    with monkeypatch.context() as patch:

        def refuse(place, key, content):
            if key == "manifest.json":
                raise PlaceError("the machine is gone")
            return create(place, key, content)

        create = FolderPlace.create
        patch.setattr(FolderPlace, "create", refuse)
        with pytest.raises(PlaceError, match="the machine is gone"):
            posemill.merge([make_run("a", "one", "two")], uri)
    with pytest.raises(RunError, match=r"is not a posemill run"):
        open_run(uri)
    posemill.merge([make_run("b", "three", seed=1)], uri)
    monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path / "machine-2"))
    assert [clip.clip_id for clip in open_run(uri)] == ["three"]
    assert len(list((tmp_path / "place" / "shards").iterdir())) == 1


def test_what_others_have_at_the_place_is_left_alone(make_run, tmp_path):
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "thesis.txt").write_text("mine")
    with pytest.raises(RunError, match=r"is not empty and not a posemill run \(it holds 'thesis"):
        posemill.merge([make_run("a", "one")], (tmp_path / "place").as_uri())
    assert [path.name for path in (tmp_path / "place").iterdir()] == ["thesis.txt"]


def test_of_two_that_put_a_run_at_one_place_the_second_is_told(make_run, tmp_path, monkeypatch):
    uri, events_of = (tmp_path / "place").as_uri(), publishing.events_of

    def overtaken(ledger, names):
        yield from events_of(ledger, names)
        open_place(uri).put("manifest.json", json.dumps({}).encode())

    monkeypatch.setattr(publishing, "events_of", overtaken)
    with pytest.raises(RunError, match=r"another process has put a run there; choose another pla"):
        posemill.merge([make_run("a", "one")], uri)
