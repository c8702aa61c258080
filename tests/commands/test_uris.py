"""The commands on runs and data at a URI: the same as on a disk."""

import numpy as np
import pytest
from cli_runner import said_by

import posemill
from posemill.errors import PlaceError
from posemill.places import open_place
from posemill.places.cache import fetched


@pytest.fixture
def runs(tmp_path, s3_bucket, monkeypatch):
    """Runs on S3 and on a disk, of the same pictures."""
    cv2 = pytest.importorskip("cv2")
    monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(1)
    for clip, length in {"train/a": 9, "train/b": 4, "dev/c": 5}.items():
        for index in range(length):
            path = tmp_path / "frames" / clip / f"{index:03d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            assert cv2.imwrite(str(path), rng.integers(0, 255, (12, 16, 3), np.uint8))
    options = {"engine": "fake", "executor": "serial", "progress": False}
    here = posemill.extract(tmp_path / "frames", tmp_path / "run", **options)
    there = posemill.extract(tmp_path / "frames", f"{s3_bucket}/runs/x", **options)
    monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path / "another machine"))
    return here, there


def test_status_view_prepare_export_and_merge_take_a_uri(runs, tmp_path):
    here, there = runs
    uri = str(there.name)
    assert uri.startswith("s3://")
    assert "finished" in said_by("status", uri)
    assert said_by("view", uri, "--json").replace(uri, "X") == said_by(
        "view", here.folder, "--json"
    ).replace(str(here.folder), "X")
    for name, place in {"here": here.folder, "there": uri}.items():
        said_by("prepare", place, "--out", tmp_path / f"data-{name}")
        said_by("export", place, "--out", tmp_path / f"{name}.npz")
        said_by("merge", place, "--out", tmp_path / f"merged-{name}")
    for name in ("{}.npz", "data-{}/train_keypoints.npz", "data-{}/dev_keypoints.npz"):
        contents = []
        for place in ("here", "there"):
            with np.load(tmp_path / name.format(place)) as file:
                contents.append(file["keypoints"].tobytes())
        assert contents[0] == contents[1]
    a, b = (posemill.open_run(tmp_path / f"merged-{name}") for name in ("here", "there"))
    assert a.to_numpy()["points"].tobytes() == b.to_numpy()["points"].tobytes()


def test_data_is_fetched_once_and_checked_by_its_hash(s3_bucket, tmp_path, monkeypatch):
    monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path / "cache"))
    place = open_place(f"{s3_bucket}/data")
    place.put("train.npz", b"train")
    place.put("deep/dev.npz", b"dev")
    folder = fetched(f"{s3_bucket}/data")
    assert (folder / "train.npz").read_bytes() == b"train"
    assert (folder / "deep" / "dev.npz").read_bytes() == b"dev"
    fetches = []
    fetch = type(place).fetch
    monkeypatch.setattr(type(place), "fetch", lambda self, key, *a, **k: (
        fetches.append(key), fetch(self, key, *a, **k))[1])  # fmt: skip
    assert fetched(f"{s3_bucket}/data") == folder
    assert fetches == []
    (folder / "train.npz").write_bytes(b"trail")  # a disk that forgets
    place.delete("deep/dev.npz")
    fetched(f"{s3_bucket}/data")
    assert fetches == ["train.npz"]
    assert (folder / "train.npz").read_bytes() == b"train"
    assert not (folder / "deep" / "dev.npz").exists()
    assert fetched(f"{s3_bucket}/data/train.npz").read_bytes() == b"train"
    torn = iter([b"torn1", b"torn2"])
    monkeypatch.setattr(type(place), "read", lambda *_: iter([next(torn)]))
    place.put("train.npz", b"later")
    with pytest.raises(PlaceError, match=r"train\.npz: what came is not what the service says"):
        fetched(f"{s3_bucket}/data/train.npz")
    with pytest.raises(PlaceError, match=r"nothing: there is nothing; expected an object"):
        fetched(f"{s3_bucket}/nothing")


def test_a_training_takes_its_data_from_a_uri(runs, s3_bucket, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    from posemill.training.data.readers import find_files

    here, _ = runs
    said_by("prepare", here.folder, "--out", tmp_path / "data")
    place = open_place(f"{s3_bucket}/prepared")
    for path in (tmp_path / "data").iterdir():
        place.put(path.name, path.read_bytes())
    wanted = find_files(str(tmp_path / "data"))
    for data in (f"{s3_bucket}/prepared", f"{s3_bucket}/prepared/{{split}}_keypoints.npz"):
        found = find_files(data)
        assert {*found} == {"train", "dev"}
        for split, path in found.items():
            assert path.read_bytes() == wanted[split].read_bytes()
