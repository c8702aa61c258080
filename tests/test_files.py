import multiprocessing
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from posemill import files
from posemill.errors import ConfigError
from posemill.files import (
    atomic_folder,
    atomic_path,
    cache_folder,
    folder_kind,
    new_folders,
    remove_leftovers,
)


def write_half(target):
    with atomic_path(target) as temporary:
        temporary.write_bytes(b"half")
        raise ZeroDivisionError


def test_a_file_is_replaced_when_its_block_ended_well_and_else_stays(tmp_path):
    target = tmp_path / "data.bin"
    with pytest.raises(FileNotFoundError), atomic_path(target):
        pass  # wrote nothing
    assert list(tmp_path.iterdir()) == []
    for content in (b"old", b"new"):
        with atomic_path(target) as temporary:
            temporary.write_bytes(content)
            assert target.exists() == (content == b"new")
            assert temporary.parent == tmp_path
        with pytest.raises(ZeroDivisionError):
            write_half(target)
        assert target.read_bytes() == content
        assert list(tmp_path.iterdir()) == [target]


def test_the_cache_folder_is_the_users_choice_or_the_platforms(monkeypatch, tmp_path):
    monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
    assert not (tmp_path / "mine").exists()
    monkeypatch.delenv("POSEMILL_CACHE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "posemill"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache_folder() == Path.home() / ".cache" / "posemill"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_folder() == Path.home() / "Library" / "Caches" / "posemill"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache_folder() == tmp_path / "local" / "posemill"


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path):
    target = tmp_path / "out"
    for text in ("first", "second"):
        with atomic_folder(target, marker="mark") as folder:
            (folder / "mark").write_text(text)
            assert target.exists() == (text == "second")
        with pytest.raises(IsADirectoryError), atomic_folder(target, marker="mark") as folder:
            folder.write_text("third")
        assert (target / "mark").read_text() == text
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    (tmp_path / "thesis").write_text("years of work")
    with pytest.raises(ConfigError, match="has no mark"), atomic_folder(tmp_path, marker="mark"):
        pass
    assert (tmp_path / "thesis").exists()


def test_leftovers_of_dead_writers_go_and_those_of_living_ones_stay(tmp_path):
    target = tmp_path / "a.npz"
    dead = tmp_path / ".a.npz.99999999-abcd.tmp"
    fresh = tmp_path / ".a.npz.99999998-abcd.tmp"
    alive = tmp_path / f".a.npz.{os.getpid()}-abcd.tmp"
    other = tmp_path / ".b.npz.99999999-abcd.tmp"
    folder = tmp_path / ".a.npz.99999997-abcd.tmp"
    for path in (dead, fresh, alive, other):
        path.write_text("half")
    folder.mkdir()
    for path in (dead, alive, other, folder):
        os.utime(path, (1, 1))
    remove_leftovers(target)
    assert sorted(tmp_path.iterdir()) == sorted([fresh, alive, other])
    aside = tmp_path / ".a.npz.99999999-abcd.old"  # it stays where no new one took its place
    aside.mkdir()
    os.utime(aside, (1, 1))
    for is_there in (True, False):
        remove_leftovers(target)
        assert aside.exists() == is_there
        target.touch()


def make_and_be_killed(target):
    with atomic_folder(target, marker="mark") as folder:
        (folder / "shard").touch()
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.skipif(sys.platform == "win32", reason="signals are of Unix")
def test_the_next_writer_of_a_folder_removes_what_a_killed_one_left(tmp_path):
    target = tmp_path / "run"
    killed = multiprocessing.get_context("spawn").Process(target=make_and_be_killed, args=[target])
    killed.start()
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(f".run.{killed.pid}-")
    with atomic_folder(target, marker="mark") as folder:
        (folder / "mark").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def write_and_fail(folder):
    (folder / "kept").touch()
    raise ZeroDivisionError


def test_new_folders_go_again_if_the_work_fails(tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    for folder in (mine / "a" / "b", mine):
        with pytest.raises(KeyboardInterrupt), new_folders(folder):
            raise KeyboardInterrupt
        assert list(tmp_path.rglob("*")) == [mine]
    with pytest.raises(ZeroDivisionError), new_folders(mine / "a" / "b"):
        write_and_fail(mine / "a")
    assert sorted(tmp_path.rglob("*")) == [mine, mine / "a", mine / "a" / "kept"]


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_many_files_are_flushed_at_once_where_the_system_can_and_one_by_one_elsewhere(
    tmp_path, monkeypatch, platform
):
    paths = [tmp_path / folder / name for folder in "ab" for name in "xyz"]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"1")
    flushed = []
    monkeypatch.setattr(files.sys, "platform", platform)
    monkeypatch.setattr(files.os, "fsync", flushed.append)
    monkeypatch.setattr(
        files.ctypes, "CDLL", lambda _: SimpleNamespace(syncfs=lambda folder: 0 * folder)
    )
    files.sync_files(paths)
    assert len(flushed) == (0 if platform == "linux" else 6 + 2)  # the files and their folders
    files.sync_files([])


def test_a_path_that_is_not_there_is_told_the_nearest_that_is(tmp_path):
    (tmp_path / "videos").mkdir()
    (tmp_path / "runs").mkdir()
    assert files.near_path(tmp_path / "vidoes") == f"; did you mean {str(tmp_path / 'videos')!r}?"
    assert files.near_path(tmp_path / "pictures") == ""
    assert files.near_path(tmp_path / "nowhere" / "vidoes") == ""
    assert files.near_path(tmp_path / "runs" / "vidoes") == ""


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({"manifest.json": '{"posemill_run": 1}', "train_keypoints.npz": ""}, "extraction"),
        ({"manifest.json": "{", "ledger.sqlite": ""}, "extraction"),
        ({"sweep.json": '{"kind": "posemill-sweep"}', "run.json": "{}"}, "sweep"),
        ({"sweep.json": "{", "log.txt": "", "config.toml": ""}, "sweep"),
        ({"run.json": '{"kind": "posemill-training"}', "dev_keypoints.npz": ""}, "training"),
        ({"log.txt": "", "config.toml": ""}, "training"),
        ({"log.txt": "", ".lock": ""}, "training"),
        ({"posemill.jsonl": '{"posemill": "0.1"}'}, "output"),
        ({".posemill-output": "", "dev_keypoints.npz": ""}, "output"),
        ({"dev_keypoints.npz": "", "log.txt": ""}, "prepared"),
        ({"manifest.json": "{}", "sweep.json": "{}", "run.json": "{}", "posemill.jsonl": ""}, None),
        ({"config.toml": "", ".lock": "", "keypoints.npz": ""}, None),
    ],
)
def test_a_folder_is_what_files_say_that_only_ours_have(files, kind, tmp_path):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    assert folder_kind(tmp_path) == folder_kind(tmp_path, list(files)) == kind
    assert folder_kind(tmp_path, []) is folder_kind(tmp_path / "nowhere") is None
    if kind is None:
        assert folder_kind(tmp_path / next(iter(files))) is None
    elif kind == "training" and "run.json" in files:
        (tmp_path / "run.json").rename(tmp_path / "secret")
        (tmp_path / "run.json").symlink_to(tmp_path / "secret")
        assert folder_kind(tmp_path) == "prepared", "a link says nothing"
