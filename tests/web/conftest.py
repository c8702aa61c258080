"""Runs of the fake engine, hostile ones among them, and a client that asks like a browser."""

import dataclasses
import json
import threading
from contextlib import contextmanager

import cv2
import numpy as np
import psutil
import pytest
from made_up_people import make_person, write_run

import posemill

pytest.importorskip("starlette", reason="the extra 'web' is not installed")
from starlette.testclient import TestClient

from posemill.web.app import make_app
from posemill.web.clip_index import index_path
from posemill.web.guard import Guard
from posemill.web.library import Library
from posemill.web.measuring import fill
from posemill.web.server import make_server

END_SECONDS = 30.0  # by which a server, or whatever a file of tests started, must have ended
HOSTILE = "<img src=x onerror=alert(1)>/../../'\";--\u202e"


@pytest.fixture
def hostile():
    """A name that would be markup, a path and a statement, if anything took it for one."""
    return HOSTILE


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path / "cache"))


@pytest.fixture(autouse=True, scope="module")
def _nothing_is_left():
    """At the end of a file of tests no process and no thread of the page is left."""
    before = set(psutil.Process().children(recursive=True))
    yield
    started = [
        child
        for child in set(psutil.Process().children(recursive=True)) - before
        if child.is_running() and "resource_tracker" not in _command(child)
    ]
    _, left = psutil.wait_procs(started, timeout=END_SECONDS)
    said = [_command(child)[:200] for child in left]
    for child in left:
        child.kill()
    ours = ("library", "measuring", "media", "reader", "server")
    said += [each.name for each in threading.enumerate() if each.name.startswith(ours)]
    assert said == []


def _command(process):
    try:
        return " ".join(process.cmdline())
    except psutil.Error:  # it ended just now
        return ""


@pytest.fixture(scope="session")
def running():
    """A function: in its block a real server of a folder answers at an address."""

    @contextmanager
    def run(folder):
        (server, listening), address = make_server([folder], host="127.0.0.1", port=0)
        thread = threading.Thread(
            target=server.run, kwargs={"sockets": [listening]}, daemon=True, name="server"
        )
        thread.start()
        try:
            yield address
        finally:
            server.should_exit = True
            thread.join(END_SECONDS)
            listening.close()
        assert not thread.is_alive(), f"the server did not end within {END_SECONDS:.0f} s"

    return run


@pytest.fixture(scope="session")
def tree(tmp_path_factory):
    """Three clips of frames in two splits, one of whose pictures is broken."""
    root = tmp_path_factory.mktemp("source") / "tree"
    rng = np.random.default_rng(0)
    for clip, num_frames in {"train/a": 6, "train/b": 4, "dev/c": 5}.items():
        (root / clip).mkdir(parents=True)
        for index in range(num_frames):
            picture = rng.integers(100, 130, (48, 64, 3), dtype=np.uint8)
            assert cv2.imwrite(str(root / clip / f"{index}.png"), picture)
    broken = root / "train" / "b" / "2.png"
    broken.write_bytes(broken.read_bytes()[:60])
    return root


@pytest.fixture(scope="session")
def runs(tree, tmp_path_factory):
    """A folder with a run, one of strange names, prepared data, and three that are broken."""
    root = tmp_path_factory.mktemp("runs")
    posemill.extract(
        tree, root / "fake", engine="fake", executor="serial", mode="video", progress=False
    )
    posemill.prepare(root / "fake", root / "prepared", progress=False)
    strange = make_person(5, split=HOSTILE, label=HOSTILE)
    swaying = make_person(40, split="train", label="hello")
    write_people(root / "people", {"swaying": swaying, HOSTILE: strange})
    write_people(root / "others", {"swaying": make_person(40, step=0.003, split="train")})
    nobody = make_person(9, missing=("pose", "face", "left_hand", "right_hand"))
    write_people(root / "good and bad", {"fine": make_person(9), "nobody": nobody})
    third = make_person(40, step=0.004, split="train")
    write_people(root / "every third", {"swaying": every_nth(third, 3)})
    for name, content in {
        "not_json": "{", "of_the_future": '{"posemill_run": 99}', "hostile": json.dumps(
            {"posemill_run": 1, "skeleton_name": "nobody knows", "created_at": HOSTILE})
    }.items():  # fmt: skip
        (root / "broken" / name).mkdir(parents=True)
        (root / "broken" / name / "manifest.json").write_text(content)
        (root / "broken" / name / "ledger.sqlite").write_bytes(b"no database")
    return root


def every_nth(clip, step):
    """Return a clip as a run with `--stride` has it."""
    rows = np.arange(0, len(clip), step)
    return dataclasses.replace(
        clip, points=clip.points[rows], scores=clip.scores[rows], sizes_wh=clip.sizes_wh[rows],
        frame_indices=clip.frame_indices[rows], image_paths=(),
    )  # fmt: skip


def write_people(folder, clips):
    """Write a run of made-up people."""
    named = [dataclasses.replace(clip, clip_id=name) for name, clip in clips.items()]
    write_run(folder, *named, kind="import")


@pytest.fixture
def client(runs):
    guard = Guard(make_app([runs]), host="127.0.0.1")
    with TestClient(guard, base_url="http://127.0.0.1:8765") as client:
        yield client


@pytest.fixture
def entry_of(runs):
    """A function that returns a run by its name, its clips measured."""
    library = Library([runs])
    library.look()

    def find(name):
        entry = next(each for each in library.entries() if each.name == name)
        fill(entry.folder, index_path(entry))
        return entry

    return find
