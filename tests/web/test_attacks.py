"""Strangers' files, strangers' sites and clients that do not behave."""

import _thread
import json
import os
import shutil
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from starlette.testclient import TestClient

import posemill
from posemill.errors import ConfigError, RunError
from posemill.jobs.extract.status import read_status
from posemill.runs.home import run_lock
from posemill.web import actions
from posemill.web import server as server_module
from posemill.web.app import STATIC, make_app
from posemill.web.children import ChildProcess
from posemill.web.guard import COOKIE, Guard, is_own_host
from posemill.web.library import ClipAddress, Library
from posemill.web.media import read_frames
from posemill.web.server import make_server, serve

UPWARD = ("..", "../../etc/passwd", "/etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e", "\0", "~",
          "....//", "C:\\Windows", "a" * 5000)  # fmt: skip


@pytest.fixture
def copied(tmp_path, runs):
    """A run that a test may change."""
    return Path(shutil.copytree(runs / "fake", tmp_path / "run"))


def test_no_address_leads_out_of_the_runs(client, entry_of, hostile):
    key = entry_of("fake").key
    for name in (*UPWARD, hostile):
        word = quote(name, safe="%")
        for path in (f"/static/{word}", f"/api/runs/{word}", f"/api/runs/{word}/clips"):
            answer = client.get(path)
            if answer.url.path == path.partition("%")[0] or "%" in path:  # not what it made of it
                assert answer.status_code in (404, 405), path
            assert b"root:" not in answer.content
        for page in ("clip", "points", "frames", "video", "file", "compare", "clips", "choices",
                     "failures", "predictions"):  # fmt: skip
            question = {"split": name, "id": name, "other": name, "as": name, "reason": name,
                        "label": name, "search": name, "part": name, "missing": "1"}  # fmt: skip
            answer = client.get(f"/api/runs/{key}/{page}", params=question)
            assert answer.status_code in (200, 404)
            assert b"root:" not in answer.content
            assert answer.headers["content-type"] == "application/json"


def test_what_no_browser_would_send_is_refused_and_leads_nowhere(runs, running):
    def ask(request):
        with socket.create_connection(("127.0.0.1", urlsplit(address).port), 20) as connection:
            connection.sendall(request.encode("latin-1"))
            return connection.recv(1 << 16)

    own = "Host: 127.0.0.1\r\nConnection: close\r\n\r\n"
    with running(runs) as address:
        for start in ("/static/", "/", "/api/runs/", "/api/runs/../../", "//", "/static//"):
            for way in ("../" * 12, "..%2f" * 12, "%2e%2e/" * 12, "..\\" * 12, "%00/", "./" * 9):
                said = ask(f"GET {start}{way}etc/passwd HTTP/1.1\r\n{own}")
                assert said.split()[1] in (b"404", b"400", b"403"), (start, way)
                assert b"root:" not in said
        for request, wanted in {
            "GET / HTTP/1.0\r\n\r\n": b"421",  # no host at all
            "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n": b"400",
            f"GET / HTTP/1.1\r\nX-Forwarded-Host: evil.example\r\n{own}": b"200",
            "GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n": b"421",
            f"TRACE / HTTP/1.1\r\n{own}": b"405",
            f"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{own}": b"200",
            "nonsense\r\n\r\n": b"400",
        }.items():
            assert ask(request).split()[1] == wanted, request


def test_every_page_is_json_or_a_file_of_ours_and_says_what_it_may_load(client, entry_of):
    paths = ["/", "/static/app.js", "/api/site", "/api/runs", f"/api/runs/{entry_of('people').key}",
             "/nothing", "/api/runs/nothing"]  # fmt: skip
    for path in paths:
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
        assert headers["cross-origin-resource-policy"] == "same-origin"


def test_files_of_the_page_have_the_types_that_browsers_insist_on(client):
    kinds = {"app.js": "javascript", "style.css": "text/css", "icon.svg": "image/svg+xml"}
    for name, kind in kinds.items():
        assert kind in client.get(f"/static/{name}").headers["content-type"]


def test_the_page_has_no_inline_script_and_asks_nobody_else():
    page = (STATIC / "index.html").read_text()
    assert '<script type="module" src="/static/app.js"></script>' in page
    assert page.count("<script") == 1
    for path in STATIC.iterdir():
        text = path.read_text()
        outside = text.replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in outside, path.name
        assert "https://" not in outside, path.name
        if path.suffix == ".js":  # names of strangers become text, never markup
            for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
                assert word not in text, f"{path.name}: {word}"


def test_hostile_names_come_as_they_are_and_are_only_looked_up(client, entry_of, hostile):
    key = entry_of("people").key
    (clip,) = client.get(f"/api/runs/{key}/clips", params={"label": hostile}).json()["clips"]
    assert (clip["clip_id"], clip["split"], clip["label"]) == (hostile,) * 3
    question = {"split": hostile, "id": hostile}
    assert client.get(f"/api/runs/{key}/clip", params=question).json()["clip_id"] == hostile
    file = client.get(f"/api/runs/{key}/file", params={**question, "as": "npz"})
    name = file.headers["content-disposition"]
    assert not {"\n", "<", "/"} & set(name)


def test_a_foreign_host_or_origin_is_refused(client):
    for host in ("evil.example", "evil.example:8765", "127.0.0.1.evil.example", "user@127.0.0.1",
                 "127.0.0.1:80:80", ""):  # fmt: skip
        assert client.get("/api/runs", headers={"host": host}).status_code == 421, host
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", "http://localhost:8765"):
        assert client.get("/api/runs", headers={"origin": origin}).status_code == 403, origin
    assert client.get("/api/runs", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert client.get("/", headers={"sec-fetch-site": "cross-site"}).status_code == 200  # a link
    assert client.get("/api/runs", headers={"origin": "http://127.0.0.1:8765"}).status_code == 200
    assert client.options("/api/runs").status_code == 405
    assert client.delete("/api/runs").status_code == 405


def test_names_of_the_server_are_known_by_what_it_listens_on():
    assert is_own_host("localhost:8765", "127.0.0.1")
    assert is_own_host("[::1]:8765", "127.0.0.1")
    assert not is_own_host("192.168.1.5:8765", "127.0.0.1")
    assert is_own_host("192.168.1.5:8765", "0.0.0.0")
    assert is_own_host(f"{socket.gethostname()}:8765", "0.0.0.0")
    assert not is_own_host("evil.example", "0.0.0.0")
    assert is_own_host("box.lan:8765", "box.lan")
    assert not is_own_host("192.168.1.5", "box.lan")


def test_others_than_this_machine_need_the_token_once(runs):
    guard = Guard(make_app([runs]), host="0.0.0.0", token="secret-of-today")
    with TestClient(guard, base_url="http://10.0.0.7:8765", follow_redirects=False) as client:
        refused = client.get("/api/runs")
        assert refused.status_code == 401
        assert refused.json()["reason"].startswith("a token is needed")
        assert client.get("/api/runs", params={"token": "secret-of-todaz"}).status_code == 401
        first = client.get("/", params={"token": "secret-of-today", "a": "b"})
        assert first.status_code == 303
        assert first.headers["location"] == "/?a=b"  # the token does not stay in the address
        cookie = first.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert client.get("/api/runs").status_code == 200
        client.cookies.clear()
        client.cookies.set(COOKIE, "wrong")
        assert client.get("/api/runs").status_code == 401
        away = client.get("//evil.example/", params={"token": "secret-of-today"})
        assert not away.headers.get("location", "/").startswith("//")


def test_without_the_token_no_address_says_anything(runs):
    app = make_app([runs], allow_actions=True)
    guard = Guard(app, host="0.0.0.0", token="secret-of-today")
    paths = [route.path.format(key="x", name="app.js") for route in app.routes]
    assert len(paths) > 15
    with TestClient(guard, base_url="http://10.0.0.7:8765") as client:
        for path in [*paths, "/nothing"]:
            for ask in (client.get, client.head, client.post):
                assert ask(path).status_code == 401, path


def test_a_server_for_others_prints_its_token_and_one_for_this_machine_has_none(runs):
    (_, listening), address = make_server([runs], host="127.0.0.1", port=0)
    listening.close()
    assert "token" not in address
    found = set()
    for _ in range(2):
        (_, listening), address = make_server([runs], host="0.0.0.0", port=0)
        listening.close()
        found.add(urlsplit(address).query)
    assert len(found) == 2
    assert all(len(query) > len("token=") + 30 for query in found)


def test_a_run_whose_parts_are_links_is_shown_as_broken(tmp_path, copied):
    secret = tmp_path.parent / "secret.json"
    secret.write_text("secret")
    (copied / "ledger.sqlite").unlink()
    (copied / "ledger.sqlite").symlink_to(secret)
    with TestClient(make_app([tmp_path])) as client:
        (row,) = client.get("/api/runs").json()["runs"]
        assert row["state"] == "broken"
        assert "is a link, expected a file" in row["reason"]


def test_a_video_is_sent_whole_or_in_the_parts_that_are_asked_for(
    client, entry_of, tmp_path, monkeypatch
):
    path = tmp_path / "long.mp4"
    content = bytes(range(256)) * (5 << 12)  # 5 MB
    path.write_bytes(content)
    size = len(content)
    monkeypatch.setattr(ChildProcess, "ask", lambda *_, **__: path)
    address = f"/api/runs/{entry_of('fake').key}/video?split=train&id=a"
    whole = client.get(address)
    assert (whole.status_code, whole.headers["content-type"]) == (200, "video/mp4")
    assert whole.content == content
    for ending, kind in {"M4V": "mp4", "mkv": "x-matroska", "ogv": "ogg", "webm": "webm"}.items():
        other = tmp_path / f"short.{ending}"
        other.write_bytes(b"video")
        monkeypatch.setattr(ChildProcess, "ask", lambda *_, path=other, **__: path)
        assert client.get(address).headers["content-type"] == f"video/{kind}"
    monkeypatch.setattr(ChildProcess, "ask", lambda *_, **__: path)
    head = client.head(address)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(size)

    def asked(header):
        return client.get(address, headers={"range": header})

    part = asked("bytes=256-259")
    assert (part.status_code, part.content) == (206, b"\0\1\2\3")
    assert part.headers["content-range"] == f"bytes 256-259/{size}"
    assert asked("bytes=-7").content == content[-7:]
    assert asked(f"bytes={size - 3}-").content == content[-3:]
    assert asked("bytes=0-99999999999999999").content == content
    several = asked("bytes=0-1,300-301")
    assert several.status_code == 206
    assert several.headers["content-type"].startswith("multipart/byteranges")
    assert b"\0\1" in several.content
    assert f"content-range: bytes 300-301/{size}".encode() in several.content.lower()
    monkeypatch.setattr(ChildProcess, "ask", lambda *_, **__: path.rename(tmp_path / "long.any"))
    assert client.get(address).headers["content-type"] == "application/octet-stream"
    (tmp_path / "long.any").rename(path)
    monkeypatch.setattr(ChildProcess, "ask", lambda *_, **__: path)
    for beyond in (f"bytes={size}-", "bytes=999999999999999999-"):
        assert asked(beyond).status_code == 416
    for malformed in ("nonsense", "bytes=9-5", "bytes=x-y", "bytes="):
        assert asked(malformed).status_code in (200, 400)
    path.symlink_to(path.rename(tmp_path / "elsewhere.mp4"))
    assert client.get(address).status_code == 404
    # It may vanish or shrink while it is sent.
    path.unlink()
    path.write_bytes(b"x" * 10)
    assert asked("bytes=900-").status_code == 416
    path.unlink()
    gone = client.get(address)
    assert gone.status_code == 404
    assert "No such file" in gone.json()["reason"]
    path.mkdir()
    assert client.get(address).status_code == 404


def test_a_fault_of_our_own_is_no_question_that_cannot_be_answered(client, monkeypatch, caplog):
    def fail(library):
        raise TypeError("a fault of ours")

    monkeypatch.setattr(Library, "entries", fail)
    answer = client.get("/api/runs")
    assert (answer.status_code, answer.json()) == (500, {"reason": "TypeError: a fault of ours"})
    assert "a fault of ours" in caplog.text


def test_files_that_change_or_vanish_while_they_are_served_are_no_failure_of_the_server(
    tmp_path, copied
):
    with TestClient(make_app([tmp_path])) as client:
        (row,) = client.get("/api/runs").json()["runs"]
        path = f"/api/runs/{row['key']}"
        for shard in (copied / "shards").iterdir():
            shard.write_bytes(shard.read_bytes()[:100])
        cut = client.get(f"{path}/points", params={"split": "train", "id": "a"})
        assert cut.status_code == 404
        assert "put back a copy of the file" in cut.json()["reason"]
        (copied / "ledger.sqlite").write_bytes(b"x" * 4096)
        assert client.get(path).json()["state"] == "broken"
        shutil.rmtree(copied)
        for page in ("", "/clips", "/clip", "/points", "/failures", "/frames"):
            answer = client.get(path + page)
            assert answer.status_code in (200, 404)
            assert page == "/failures" or answer.json()["reason"]


def test_originals_that_vanish_or_become_links_while_they_are_shown_are_gone(tmp_path, tree):
    shutil.copytree(tree, tmp_path / "tree")
    posemill.extract(tmp_path / "tree", tmp_path / "run", engine="fake", executor="serial",
                     progress=False)  # fmt: skip
    pictures = sorted((tmp_path / "tree" / "train" / "a").iterdir())
    with TestClient(make_app([tmp_path / "run"])) as client:
        (row,) = client.get("/api/runs").json()["runs"]

        def sizes():
            question = {"split": "train", "id": "a", "count": 6}
            answer = client.get(f"/api/runs/{row['key']}/frames", params=question)
            return list(struct.unpack("<6I", answer.content[4:28]))

        assert all(sizes())
        pictures[0].unlink()
        pictures[1].unlink()
        pictures[1].symlink_to(tree / "train" / "a" / "1.png")
        pictures[2].write_bytes(b"no picture any more")
        assert [size > 0 for size in sizes()] == [False] * 3 + [True] * 3
        shutil.rmtree(tmp_path / "tree")
        assert not any(sizes())


def test_hostile_notes_of_a_running_job_are_a_reason_not_a_failure(tmp_path, copied):
    for note in ({"workers": "x"}, {"workers": [1, {"task": {}}]}, {"frames_per_second": "fast"}):
        live = {"written_at": time.time(), "seconds_left": None, "seconds": "x",
                "num_workers": 1, "frames_per_second": 1.0, "done_by_split": {}}  # fmt: skip
        (copied / "live.json").write_text(json.dumps(live | note))
        with run_lock(copied), TestClient(make_app([tmp_path])) as client:
            (row,) = client.get("/api/runs").json()["runs"]
            assert client.get(f"/api/runs/{row['key']}").status_code == 200


def test_the_process_that_reads_files_may_die_hang_or_fail_alone(entry_of):
    child = ChildProcess("media")
    address = ClipAddress(entry_of("fake"), "train", "nobody")
    with closing(child):
        with pytest.raises(RunError, match="died of this one"):
            child.ask(read_frames, _Kills(), 0, 1, 64, seconds=60)
        with pytest.raises(RunError, match="no keypoints of a clip 'nobody'"):
            child.ask(read_frames, address, 0, 1, 64, seconds=60)
        with pytest.raises(RunError, match="took longer than 0 s"):
            child.ask(read_frames, _Hangs(), 0, 1, 64, seconds=0.2)
        waiting = child.submit(read_frames, _Hangs(), 0, 1, 64)
        threading.Timer(0.5, child.close).start()
        with pytest.raises(RunError, match="the server is stopping"):
            waiting.result()
    with pytest.raises(RunError, match="the server is stopping"):
        child.ask(read_frames, address, 0, 1, 64, seconds=60)


class _Kills:
    """An address whose mere arrival ends the process."""

    def __reduce__(self):
        return os._exit, (3,)


class _Hangs:
    def __reduce__(self):
        return time.sleep, (60,)


def test_a_thousand_requests_at_once_slow_clients_and_long_heads_are_borne(
    runs, running, monkeypatch
):
    monkeypatch.setattr(server_module, "_HEAD_SECONDS", 0.4)
    with running(runs) as address:
        port = urlsplit(address).port or 0
        slow, second = (socket.create_connection(("127.0.0.1", port)) for _ in range(2))
        slow.sendall(b"GET / HTTP/1.1\r\nHost: 127.0")  # and never the rest
        second.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + b"GET / HTTP/1.1\r\n")

        def ask(number):
            connection = HTTPConnection("127.0.0.1", port, timeout=60)
            try:
                connection.request("GET", "/" if number % 8 else "/api/runs")
                return connection.getresponse().status
            finally:
                connection.close()

        with ThreadPoolExecutor(100) as pool:
            found = list(pool.map(ask, range(1000)))
        assert found == [200] * 1000  # each had its turn
        for client in (slow, second):
            client.settimeout(20)
        assert slow.recv(100) == b""  # it has waited long enough
        assert b" 200 " in second.recv(100)
        while second.recv(1 << 16):  # the rest of the first answer, then the end
            pass
        slow.close()
        second.close()
        long = socket.create_connection(("127.0.0.1", port))
        long.sendall(b"GET /" + b"a" * 100_000)
        long.settimeout(20)
        assert b" 400 " in long.recv(100)
        long.close()


def test_actions_need_to_be_allowed_to_come_from_the_page_and_to_be_asked_twice(
    tmp_path, runs, entry_of, monkeypatch
):
    acted = []
    monkeypatch.setattr(
        "posemill.web.actions.act", lambda entry, action: acted.append((entry.name, action)) or "ok"
    )
    key, own = entry_of("fake").key, {"origin": "http://127.0.0.1"}
    path = f"/api/runs/{key}/actions"
    with TestClient(Guard(make_app([runs]), host="127.0.0.1"), base_url="http://127.0.0.1") as shy:
        refused = shy.post(path, json={"action": "stop"}, headers=own)
        assert refused.status_code == 403
        assert refused.json()["reason"].endswith("start it with --allow-actions")
    guard = Guard(make_app([runs], allow_actions=True), host="127.0.0.1")
    with TestClient(guard, base_url="http://127.0.0.1") as client:
        assert client.get(path).status_code == 405
        assert client.post(path, json={"action": "stop"}).status_code == 403  # no origin
        evil = {"origin": "http://evil.example"}
        assert client.post(path, json={"action": "stop"}, headers=evil).status_code == 403
        assert client.post(path, data={"action": "stop"}, headers=own).status_code == 403
        assert client.post(path, content=b"[" * 3000, headers={
            **own, "content-type": "application/json"}).status_code == 400  # fmt: skip
        assert client.post(path, content=b'{"a": "' + b"x" * 9000, headers={
            **own, "content-type": "application/json"}).status_code == 400  # fmt: skip
        wrong = client.post(path, json={"action": "rm -rf"}, headers=own)
        assert wrong.json()["reason"] == "no action 'rm -rf' for a run of kind extraction"
        word = client.post(path, json={"action": "stop"}, headers=own).json()["confirm"]
        other = client.post(path, json={"action": "retry", "confirm": word}, headers=own)
        assert other.json()["reason"] == "this was not confirmed, or too late; ask again"
        again = client.post(path, json={"action": "stop", "confirm": word}, headers=own)
        assert again.status_code == 404  # a word is good for one try
        assert acted == []
        word = client.post(path, json={"action": "stop"}, headers=own).json()["confirm"]
        done = client.post(path, json={"action": "stop", "confirm": word}, headers=own)
        assert done.json() == {"done": "ok"}
        monkeypatch.setattr(actions, "_GOOD_FOR_SECONDS", -1.0)
        word = client.post(path, json={"action": "stop"}, headers=own).json()["confirm"]
        late = client.post(path, json={"action": "stop", "confirm": word}, headers=own)
        assert late.json() == other.json()
    assert acted == [("fake", "stop")]


def test_a_run_that_was_cut_is_continued_and_what_failed_is_tried_again(tmp_path, copied):
    library = Library([tmp_path])
    library.look()
    (entry,) = library.entries()
    log = entry.folder / "logs" / "coordinator.log"
    num_ends = log.read_text().count("finished: ")
    assert actions.act(entry, "stop") == "nobody works on it"
    assert actions.act(entry, "retry").startswith("pid ")
    deadline = time.monotonic() + 60
    while read_status(entry.folder).state == "running" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert read_status(entry.folder).frames_failed == 1  # as broken as before
    assert log.read_text().count("finished: ") == num_ends + 1


def test_a_connection_too_many_is_closed_and_the_others_are_served(runs, running, monkeypatch):
    monkeypatch.setattr(server_module, "_MOST_CONNECTIONS", 4)
    with running(runs) as address, ExitStack() as stack:
        place = ("127.0.0.1", urlsplit(address).port or 0)
        kept = [stack.enter_context(socket.create_connection(place, 20)) for _ in range(3)]
        for connection in kept:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert b" 200 " in connection.recv(100)
        with socket.create_connection(place, 20) as late:
            late.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert late.recv(1000).startswith(b"HTTP/1.1 503 ")
        kept[1].sendall(b"GET /api/site HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        said = b""
        while b'"version"' not in said:  # after what is left of the page
            more = kept[1].recv(1 << 16)
            assert more, said
            said += more


def test_a_folder_that_is_not_there_and_a_port_that_is_taken_are_said(tmp_path, runs):
    with pytest.raises(ConfigError, match="no such folder; name one with runs in it"):
        serve([tmp_path / "gone"])
    with socket.create_server(("127.0.0.1", 0)) as held, pytest.raises(ConfigError, match="listen"):
        serve([runs], port=held.getsockname()[1])


def test_ctrl_c_ends_a_server_and_is_no_error(runs):
    serve([runs], port=0, say=lambda _: threading.Timer(1, _thread.interrupt_main).start())
