"""`frames` with a URI as its source, its output, or both."""

from __future__ import annotations

from pathlib import Path

import pytest

from posemill.config import ExtractConfig, FramesConfig
from posemill.errors import PlaceError
from posemill.jobs.extract.coordinator import Coordinator
from posemill.jobs.extract.run import extract
from posemill.jobs.frames.run import write_frames
from posemill.places import open_place
from posemill.places.objects import ObjectPlace


class Killed(BaseException):
    """Stands for a SIGKILL in this process."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path / "machine-1"))


@pytest.fixture
def videos(tmp_path, write_video):
    write_video(tmp_path / "videos" / "a.mp4", 30)
    write_video(tmp_path / "videos" / "b.mp4", 7, seed=1)
    return tmp_path / "videos"


def config(source, out, **changes):
    return FramesConfig(source, Path(out), executor="serial", task_frames=8, **changes)


def content_of(folder: Path) -> dict[str, bytes]:
    own = ("ledger", "lock", "live", "manifest", "logs")
    paths = [path for path in folder.rglob("*") if path.is_file()]
    names = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    return {name: data for name, data in names.items() if not name.startswith(own)}


def test_frames_at_a_uri_are_those_of_a_disk_after_a_kill_and_on_another_machine(
    videos, tmp_path, s3_bucket, monkeypatch
):
    write_frames(config(videos, tmp_path / "here"))
    wanted, uri = content_of(tmp_path / "here"), f"{s3_bucket}/frames"
    receive = Coordinator._receive
    with monkeypatch.context() as patch:

        def killed(self, task, value):
            receive(self, task, value)
            raise Killed

        patch.setattr(Coordinator, "_receive", killed)
        with pytest.raises(Killed):
            write_frames(config(videos, uri))
    monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path / "machine-2"))
    assert open_place(uri).look("index.csv") is None
    summary = write_frames(config(videos, uri))
    assert summary.index_name == f"{uri}/index.csv"
    place = open_place(uri)
    assert {name: place.get(name) for name in wanted} == wanted
    assert write_frames(config(videos, uri)).num_frames_now == 0
    run = extract(ExtractConfig(Path(f"{uri}/index.csv"), tmp_path / "run", engine="fake",
                                executor="serial"))  # fmt: skip
    assert run.num_frames == 37


def test_a_place_that_refuses_pictures_stops_the_run_in_words(videos, s3_bucket, monkeypatch):
    put = ObjectPlace.put

    def refuse(self, key, content):
        if key.endswith("20.jpg"):
            raise PlaceError("access was refused")
        put(self, key, content)

    monkeypatch.setattr(ObjectPlace, "put", refuse)
    with pytest.raises(PlaceError, match="access was refused"):
        write_frames(config(videos, f"{s3_bucket}/frames"))
