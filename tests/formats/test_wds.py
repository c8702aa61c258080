import io
import tarfile

import numpy as np
import pytest

from posemill.errors import FormatError
from posemill.formats.shared.contract import Recipe
from posemill.formats.wds import WebDatasetFormat
from posemill.testing.formats import make_clip, make_clips

WDS = WebDatasetFormat()


def repack(path, *, without="", **replaced):
    """Write a tar with some members left out or replaced."""
    with tarfile.open(path) as tar:
        members = [(m.name, tar.extractfile(m).read()) for m in tar]
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            if without and without in name:
                continue
            data = next((new for part, new in replaced.items() if part in name), data)
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return path


@pytest.fixture
def path(tmp_path):
    WDS.write(make_clips(), tmp_path / "a.tar", recipe=Recipe())
    return tmp_path / "a.tar"


@pytest.mark.filterwarnings("ignore")
def test_webdataset_itself_reads_the_samples(path):
    webdataset = pytest.importorskip("webdataset")
    samples = list(webdataset.WebDataset(str(path), shardshuffle=False).decode())
    assert [sample["__key__"] for sample in samples] == [
        "train/clip_1", "train/deep/er_name", "dev/clip_3", "dev/one"]  # fmt: skip
    for sample, clip in zip(samples, make_clips(), strict=True):
        np.testing.assert_array_equal(sample["keypoints.npy"], np.nan_to_num(clip.points))
        np.testing.assert_array_equal(sample["mask.npy"], clip.mask)
        assert sample["json"]["label"] == clip.label
        assert sample["json"]["clip_id"] == clip.clip_id


def test_ids_that_become_one_key_stay_two_samples(tmp_path):
    clips = [make_clip(1, clip_id="a.b"), make_clip(2, clip_id="a_b")]
    WDS.write(clips, tmp_path / "a.tar", recipe=Recipe())
    assert [clip.clip_id for clip in WDS.read(tmp_path / "a.tar")] == ["a.b", "a_b"]


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("replaced", "message"),
    [
        ({"mask": npy(np.ones((1, 1), bool))}, "expected mask of shape"),
        ({"keypoints": npy(np.ones(3, "f4"))}, r"keypoints of train/clip_1 of shape .*\(3,\)"),
        ({"keypoints": npy(np.array([{}]))}, "Python objects; unpickling it could run code"),
        ({"keypoints": b"nonsense"}, "magic"),
        ({"keypoints": npy(np.ones((6, 143, 3), "f4"))[:-9]}, r"does not fit \d+ bytes"),
        ({"json": b"{"}, "Expecting property name"),
        ({"json": b"[" * 100_000}, "RecursionError"),
        ({"json": b"{}"}, "KeyError"),
    ],
)
def test_samples_that_do_not_fit_are_refused(path, replaced, message):
    with pytest.raises(FormatError, match=rf"a\.tar.*{message}"):
        list(WDS.read(repack(path, **replaced)))


def test_a_cut_tar_and_a_member_that_claims_more_than_the_file_are_refused(path):
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(FormatError, match=r"a\.tar"):
        list(WDS.read(path))
    with tarfile.open(path, "w") as tar:
        entry = tarfile.TarInfo("train/x.json")
        entry.size = 1 << 40
        tar.fileobj.write(entry.tobuf())
    with pytest.raises(FormatError, match=r"claims 1099511627776 of \d+ bytes"):
        list(WDS.read(path))
