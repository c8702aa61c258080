import time
from pathlib import Path

import pytest

from posemill.errors import ConfigError, PlaceError, SourceError
from posemill.places import ChangedError, Entry, Place, open_place, split_uri
from posemill.sources import find_clips
from posemill.sources import scratch as scratch_module
from posemill.sources.reading import list_frames
from posemill.sources.scratch import Scratch


@pytest.fixture(params=["file", "s3"])
def uri(request, tmp_path):
    if request.param == "s3":
        return request.getfixturevalue("s3_bucket") + "/data"
    return f"file://{tmp_path}/data"


def fill(uri, names):
    for name in names:
        open_place(uri).put(name, name.encode())


def test_videos_are_the_clips_that_a_disk_would_have(uri, tmp_path):
    names = ["train/a/x10.mp4", "train/a/x9.mp4", "dev/b.mp4", "dev/notes.txt", ".hidden.mp4"]
    fill(uri, names)
    for name in names:
        (tmp_path / "disk" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "disk" / name).write_text(name)
    there, here = find_clips(uri), find_clips(tmp_path / "disk")
    assert [(c.split, c.clip_id, c.kind) for c in there] == [
        (c.split, c.clip_id, c.kind) for c in here
    ]
    assert there.layout == here.layout
    assert there[0].path == f"{uri}/train/a/x9.mp4"
    assert all(clip.version for clip in there)
    before = there.fingerprint
    assert find_clips(uri).fingerprint == before
    open_place(uri).put("dev/b.mp4", b"changed")
    assert find_clips(uri).fingerprint != before


def test_folders_of_pictures_are_clips_and_runs_among_them_are_left_out(uri):
    fill(uri, ["a/1.png", "a/2.png", "a/10.png", "b/c/1.jpg", "run/shots/1.png", "__MACOSX/1.png"])
    open_place(uri).put("run/manifest.json", b'{"posemill_run": 1}')
    ours = ["run"]
    if uri.startswith("s3:"):  # a folder lists no hidden files
        fill(uri, ["pictures/.posemill-output", "pictures/1.png"])
        ours = ["pictures", "run"]
    clips = find_clips(uri)
    assert [(clip.clip_id, clip.num_frames) for clip in clips] == [("a", 3), ("b/c", 1)]
    assert clips.problems == tuple(
        f"'{uri}/{name}' was written by posemill; left out" for name in ours
    )
    assert list(list_frames(clips[0])) == ["1.png", "2.png", "10.png"]
    fill(uri, ["a/3.png"])
    with pytest.raises(ChangedError, match=r"/a: its pictures were changed since they were listed"):
        list_frames(clips[0])


def test_lists_name_objects_wherever_the_list_is(uri, tmp_path):
    (tmp_path / "list.csv").write_text(f"path,split\n{uri}/a.mp4,train\n{uri}/b,dev\n")
    clips = find_clips(tmp_path / "list.csv")
    assert [(clip.path, clip.kind) for clip in clips] == [
        (f"{uri}/a.mp4", "video"), (f"{uri}/b", "frames"),
    ]  # fmt: skip
    open_place(uri).put("list.csv", b"path\nx/a.mp4\nx/b.png\n")
    assert [(clip.path, clip.kind) for clip in find_clips(f"{uri}/list.csv")] == [
        (f"{uri}/x/a.mp4", "video"), (f"{uri}/x/b.png", "pictures"),
    ]  # fmt: skip


def test_what_is_not_there_or_not_to_be_had_is_said(uri):
    with pytest.raises(SourceError, match=r"data: there is nothing; look at its name"):
        find_clips(uri)
    fill(uri, ["a.txt"])
    with pytest.raises(SourceError, match=r"no clips in .*found 1 other files"):
        find_clips(uri)
    with pytest.raises(SourceError, match=r"PHOENIX-2014-T is read from a disk"):
        find_clips(uri, layout="phoenix")
    with pytest.raises(SourceError, match=r"a\.mp4 is one object; give what it lies in"):
        find_clips(f"{uri}/a.mp4")
    with pytest.raises(PlaceError, match=r"none.csv: there is nothing; expected an object"):
        find_clips(f"{uri}/none.csv")


def test_scratch_fetches_nothing_large_ahead_and_keeps_nothing(uri, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    fill(uri, [f"{number}.mp4" for number in range(8, 12)])
    monkeypatch.setattr(scratch_module, "MOST_BYTES", 5)  # `10.mp4` has 6
    scratch = Scratch()
    names = [(f"{uri}/{number}.mp4", "") for number in range(8, 12)]
    scratch.ahead((*name, None) for name in names)
    for future in list(scratch._ahead.values()):
        future.result()
    folder = scratch.folder
    assert len(list(folder.iterdir())) == 2
    for number, (name, version) in enumerate(names, start=8):
        with scratch.file(name, version) as path:
            assert Path(path).read_bytes() == f"{number}.mp4".encode()
            assert path.endswith(".mp4")
    assert list(folder.iterdir()) == []
    entry = open_place(uri).look("8.mp4")
    open_place(uri).put("8.mp4", b"other content")
    with pytest.raises(ChangedError, match="was changed or removed"):
        scratch.file(f"{uri}/8.mp4", entry.version).__enter__()
    assert list(folder.iterdir()) == []


def test_cutting_long_videos_needs_them_here(uri, tmp_path):
    from posemill.config import ExtractConfig
    from posemill.jobs.extract.plan import plan_units

    fill(uri, ["a.mp4"])
    config = ExtractConfig(uri, tmp_path / "run", split_long_seconds=5.0)
    with pytest.raises(ConfigError, match=r"split_long_seconds needs the lengths"):
        list(plan_units(find_clips(uri), config))


class SlowPlace(Place):
    """Gives an object in four pieces, with a pause before each; counts what it is asked."""

    def __init__(self, pause_seconds=0.0):
        super().__init__("slow://place")
        self.asked = []
        self.pause_seconds = pause_seconds

    def look(self, key):
        self.asked.append("look")
        return Entry(key, 4, "1", 0.0)

    def read(self, key, version):
        self.asked.append("read")
        for _ in range(4):
            time.sleep(self.pause_seconds)
            yield b"x"

    put = create = get = list = delete = None


@pytest.fixture
def slow(monkeypatch, tmp_path):
    monkeypatch.setattr(SlowPlace, "__abstractmethods__", frozenset())
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    place = SlowPlace()
    monkeypatch.setattr(scratch_module, "split_uri", lambda uri: (place, uri))
    monkeypatch.setattr(scratch_module, "uri_of", lambda uri: uri)
    return place


@pytest.mark.parametrize("is_ahead", [False, True])
def test_a_long_fetch_says_that_it_goes_on(slow, monkeypatch, is_ahead):
    slow.pause_seconds = 0.1
    monkeypatch.setattr(scratch_module, "_LOOK_SECONDS", 0.02)
    said = []
    scratch = Scratch()
    if is_ahead:
        scratch.ahead([("a.mp4", "", None)])
    with scratch.file("a.mp4", on_progress=lambda: said.append(1)) as path:
        assert Path(path).read_bytes() == b"xxxx"
    assert 2 <= len(said) <= 4, "once for each piece, whatever the time between two looks"


def test_a_picture_whose_size_is_known_is_asked_for_once_and_not_flushed(slow, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: pytest.fail("it is flushed to the disk"))
    scratch = Scratch()
    scratch.ahead([("a.png", "", 4)])
    with scratch.file("a.png") as path:
        assert Path(path).read_bytes() == b"xxxx"
    assert slow.asked == ["read"]


def test_folders_of_the_dead_go_and_those_of_another_pid_namespace_stay(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    scratch = Scratch()
    above, _, _ = scratch.folder.name.rsplit("-", 2)
    dead, other = (tmp_path / f"{name}-999999999-x" for name in (above, f"{above[:-2]}123"))
    dead.mkdir()
    other.mkdir()
    assert Scratch().folder.exists()
    assert (dead.exists(), other.exists(), scratch.folder.exists()) == (False, True, True)


def test_all_objects_of_a_bucket_share_one_client(monkeypatch):
    opened = []
    monkeypatch.setattr("posemill.places.open_place", lambda place: opened.append(place))
    for name in ("a/1.png", "b/2.png", "c/d/3.png"):
        _, key = split_uri(f"s3://bucket/{name}")
        assert key == name
    assert set(opened) == {"s3://bucket"}
