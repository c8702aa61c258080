import pickle
from importlib.util import find_spec

import numpy as np
import pytest

from posemill.errors import TrainingError
from posemill.training.data.cache import precompute

RNG = np.random.default_rng(0)
SAMPLES = [
    (RNG.random((frames, 3, 2)).astype(np.float32), RNG.random((frames, 3)) > 0.3)
    for frames in (4, 1, 7)
]
HDF5 = pytest.param("hdf5", marks=pytest.mark.skipif(not find_spec("h5py"), reason="no h5py"))


@pytest.mark.parametrize("kind", ["mmap", "ram", HDF5, "none"])
def test_every_kind_gives_back_the_samples(tmp_path, kind):
    store = precompute(SAMPLES, key="a", kind=kind, folder=tmp_path)
    for index, (points, mask) in enumerate(SAMPLES):
        read_points, read_mask = store.read(index)
        np.testing.assert_array_equal(read_points, points)
        np.testing.assert_array_equal(read_mask, mask)
        assert read_points.dtype == np.float32
    assert store.offsets.tolist() == [0, 4, 5, 12]
    assert any(tmp_path.iterdir()) == (kind != "none")
    for key, num_computed in (("a", 0 if kind != "none" else 3), ("b", 3)):
        samples = iter(SAMPLES)
        precompute(samples, key=key, kind=kind, folder=tmp_path)
        assert len(SAMPLES) - len(list(samples)) == num_computed, "once for a key"


def test_a_mapped_store_is_pickled_as_its_place(tmp_path):
    big = [(np.zeros((5000, 3, 2), np.float32), np.ones((5000, 3), bool))]
    store = precompute(big, key="big", folder=tmp_path)
    store.read(0)
    assert len(pickle.dumps(store)) < 2000


def test_a_cut_off_computation_leaves_nothing_behind(tmp_path):
    def broken():
        yield SAMPLES[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        precompute(broken(), key="a", folder=tmp_path)
    assert not list(tmp_path.iterdir())
    assert len(precompute(SAMPLES, key="a", folder=tmp_path).offsets) == 4


def test_whoever_is_second_uses_what_the_first_has_written(tmp_path):
    def while_another_writes():
        precompute(SAMPLES, key="a", folder=tmp_path)
        yield from SAMPLES

    store = precompute(while_another_writes(), key="a", folder=tmp_path)
    np.testing.assert_array_equal(store.read(0)[0], SAMPLES[0][0])
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainingError, match=r"cannot write the cache below .* cache_folder"):
        precompute(SAMPLES, key="a", folder=tmp_path / "file")
