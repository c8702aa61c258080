"""The contract over all kinds of place, and what each says when something is wrong."""

import itertools
import os
import socket
import sys
import urllib.request
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from benchmarks.shared.fault_proxy import FaultProxy
from posemill.errors import MissingExtraError, PlaceError
from posemill.places import _open, open_place, split_uri, uri_of
from posemill.places.cache import fetched
from posemill.places.folders import FolderPlace, is_shared
from posemill.testing import PlaceContract


class TestSharedFolders(PlaceContract):
    @pytest.fixture
    def place(self, tmp_path):
        return open_place(tmp_path / "a place")


class TestS3(PlaceContract):
    @pytest.fixture
    def place(self, s3_bucket):
        return open_place(f"{s3_bucket}/runs/a")


class TestS3WithFaults(PlaceContract):
    """A third of all requests is answered 503, late, in part or not at all."""

    @pytest.fixture
    def place(self, faulty, s3_bucket):
        faulty.rate = 0.33
        return open_place(f"{s3_bucket}/runs/a")


@pytest.fixture
def faulty(s3_server, s3_bucket, monkeypatch):
    """A proxy before the server; the environment leads through it."""
    import posemill.places.objects as objects

    pauses = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=9)}
    monkeypatch.setitem(objects.RETRY, "backoff", pauses)
    monkeypatch.setattr(objects, "PAUSE_SECONDS", 0.01)
    with FaultProxy(("127.0.0.1", s3_server[1]), seed=5) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        _open.cache_clear()
        yield proxy
    _open.cache_clear()


def answer(status, code):
    body = f"<Error><Code>{code}</Code><Message>x</Message></Error>"
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return f"{head}{body}".encode()


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        ("403 Forbidden", "InvalidAccessKeyId",
         r"access was refused \(InvalidAccessKeyId\): the credentials are wrong, or may not do "
         r"this; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("403 Forbidden", "AccessDenied", r"access was refused \(AccessDenied\)"),
        ("400 Bad Request", "ExpiredToken",
         r"the credentials have expired; get new ones and set AWS_ACCESS_KEY_ID"),
        ("404 Not Found", "NoSuchBucket", r"there is no bucket 'bucket-\d+'; make it"),
        ("503 Slow Down", "SlowDown",
         r"does not answer as it should, after several tries .*; everything committed so far is "
         r"safe: run the same command again"),
    ],
)  # fmt: skip
def test_what_a_service_refuses_is_said_in_words(faulty, s3_bucket, status, code, message):
    faulty.answer = answer(status, code)
    place = open_place(f"{s3_bucket}/x")
    for call in (
        lambda: place.put("k", b"1"),
        lambda: place.create("k", b"1"),
        lambda: place.get("k"),
        lambda: list(place.list()),
    ):
        with pytest.raises(PlaceError, match=rf"{s3_bucket}/x.*{message}"):
            call()


def test_a_server_that_is_not_there_is_said_after_several_tries(faulty, s3_bucket, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    _open.cache_clear()
    with pytest.raises(PlaceError, match="does not answer as it should, after several tries"):
        open_place(f"{s3_bucket}/x").get("k")


def test_an_upload_whose_answer_was_lost_counts_as_ours(faulty, s3_bucket):
    place = open_place(f"{s3_bucket}/x")
    faulty.rate = 0.5
    assert all(place.create(f"k{number}", b"mine") for number in range(12))
    assert faulty.met["lost"]
    assert not any(place.create(f"k{number}", b"another's") for number in range(12))


def test_paths_are_no_uris_and_uris_survive_being_paths():
    paths = ("/data/runs", "runs/a:b/c", r"C:/data", "http://host/x")
    assert {uri_of(path) for path in paths} == {None}
    assert uri_of("s3://bucket/runs/a/") == "s3://bucket/runs/a"
    assert uri_of(Path("s3://bucket/runs/a")) == "s3://bucket/runs/a"
    assert uri_of(Path("file:///data/x")) == "file:///data/x"
    place, key = split_uri("file:///data/x/y.mp4")
    assert (place.uri, key) == ("file:///data/x", "y.mp4")


def test_without_the_extra_it_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "posemill.places.objects", raising=False)
    monkeypatch.setitem(sys.modules, "obstore", None)
    _open.cache_clear()
    with pytest.raises(MissingExtraError, match=r"needs 'obstore', .* 'posemill\[cloud\]'"):
        open_place("s3://bucket/x")


def test_a_disk_that_refuses_or_is_full_is_said(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(PlaceError, match=r"cannot write to .*file"):
        open_place(tmp_path / "file").put("k", b"1")

    def refuse(source, target):
        raise PermissionError(1, "Operation not permitted", str(source), None, str(target))

    place = open_place(tmp_path / "place")
    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(PlaceError, match=r"its file system has no hard links .*object store"):
        place.create("k", b"1")

    def pieces(self, key, version):
        raise OSError(28, "No space left on device")
        yield b""

    monkeypatch.setattr(FolderPlace, "read", pieces)
    with pytest.raises(PlaceError, match=r"no room left to write to .*; .*k was not copied"):
        place.fetch("k", tmp_path / "copy")


def test_mounts_tell_which_folders_machines_share(tmp_path, monkeypatch):
    mounts = {"/": "ext4", "/nfs": "nfs4", "/nfs/with blank": "lustre", "/nfs/local": "nfs",
              "/mnt/数据": "nfs"}  # fmt: skip
    partitions = [SimpleNamespace(mountpoint=path, fstype=kind) for path, kind in mounts.items()]
    on_top = SimpleNamespace(mountpoint="/nfs/local", fstype="btrfs")
    places = {"/nfs/runs/a": True, "/nfs": True, "/nfs/with blank/b": True, "/nfs/local/c": False,
              "/nfs/local2/c": True, "/nfsx": False, "/mnt/数据/runs": True}  # fmt: skip
    assert not is_shared(tmp_path)
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: [*partitions, on_top])
    assert {path: is_shared(Path(path)) for path in places} == places

    def refuse(all):
        raise OSError

    monkeypatch.setattr(psutil, "disk_partitions", refuse)
    assert not is_shared(Path("/nfs"))


def test_a_listing_ends_where_the_last_key_is_the_marker_of_a_folder(s3_bucket, monkeypatch):
    """Consoles make an empty object `dirs/a/`, which the client calls `dirs/a`."""
    url = f"{os.environ['AWS_ENDPOINT_URL']}/{s3_bucket.removeprefix('s3://')}"
    for key in ("dirs/a-b", "dirs/a/", "dirs/a/x", "dirs/b/"):
        urllib.request.urlopen(urllib.request.Request(f"{url}/{key}", method="PUT")).close()
    place = open_place(f"{s3_bucket}/dirs")
    found = [entry.key for entry in itertools.islice(place.list(), 50)]
    assert found == ["a-b", "a", "a/x", "b"]
    monkeypatch.setattr("posemill.places.objects._LIST_CHUNK", 2)
    assert [entry.key for entry in itertools.islice(place.list(), 50)] == found


def test_an_etag_that_looks_like_an_md5_and_is_none_is_no_damage(s3_bucket, monkeypatch, tmp_path):
    """Of objects that the service encrypts by a key of its own (SSE-KMS)."""
    monkeypatch.setenv("POSEMILL_CACHE", str(tmp_path))
    place = open_place(s3_bucket)
    place.put("a.npz", b"content")
    look, read = type(place).look, type(place).read
    etag = '"' + "0" * 32 + '"'
    monkeypatch.setattr(type(place), "look", lambda *args: look(*args)._replace(version=etag))
    monkeypatch.setattr(type(place), "read", lambda self, key, _: read(self, key, None))
    copy = fetched(f"{s3_bucket}/a.npz")
    assert copy.read_bytes() == b"content"
    copy.write_bytes(b"damaged")
    assert fetched(f"{s3_bucket}/a.npz").read_bytes() == b"content"
    monkeypatch.setattr(type(place), "fetch", lambda *_, **__: pytest.fail("fetched again"))
    assert fetched(f"{s3_bucket}/a.npz") == copy


def test_the_profile_of_aws_is_read_where_there_is_one_and_no_keys_are_set(monkeypatch, tmp_path):
    objects = pytest.importorskip("posemill.places.objects", reason="needs the extra cloud")
    pytest.importorskip("boto3", reason="reads profiles")
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert objects._profile() == {}
    (tmp_path / ".aws").mkdir()
    keys = "aws_access_key_id = a\naws_secret_access_key = b\n"
    (tmp_path / ".aws" / "credentials").write_text(f"[default]\n{keys}[mine]\n{keys}")
    assert list(objects._profile()) == ["credential_provider"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    assert objects._profile() == {}
