"""An S3 server on loopback, in a thread of the tests."""

import itertools
import logging
import threading
import urllib.request
from contextlib import nullcontext

import pytest

_NUMBERS = itertools.count()
KEYS = {
    "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1",
}  # fmt: skip


@pytest.fixture(scope="session")
def s3_server():
    """Host and port of a server of moto."""
    pytest.importorskip("obstore", reason="needs the extra cloud")
    moto = pytest.importorskip("moto.server", reason="needs moto[server], an S3 server for tests")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    # Its threads look whether a key is there and write it in two steps: of two who create one, both
    # would succeed. A store takes one at a time.
    answer, one_at_a_time = server._server.app, threading.Lock()

    def answer_in_turn(environ, start_response):
        with one_at_a_time if environ["REQUEST_METHOD"] == "PUT" else nullcontext():
            return answer(environ, start_response)

    server._server.app = answer_in_turn
    yield server.get_host_and_port()
    server.stop()


@pytest.fixture
def s3_bucket(s3_server, monkeypatch):
    """The URI of a new bucket; the environment says how to reach it."""
    from posemill.places import _open

    url, name = f"http://127.0.0.1:{s3_server[1]}", f"bucket-{next(_NUMBERS)}"
    for key, value in {**KEYS, "AWS_ENDPOINT_URL": url}.items():
        monkeypatch.setenv(key, value)
    urllib.request.urlopen(urllib.request.Request(f"{url}/{name}", method="PUT")).close()
    _open.cache_clear()
    yield f"s3://{name}"
    _open.cache_clear()
