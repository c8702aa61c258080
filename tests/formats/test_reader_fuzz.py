"""Every reader against thousands of damaged files: clips or an error of ours, soon.

`POSEMILL_FUZZ_CASES=5000 pytest tests/formats/test_reader_fuzz.py` runs more of them, other ones
each time.
"""

import os
import random
import resource
import shutil
import struct
import sys
import time

import pytest

from posemill.errors import PosemillError
from posemill.formats import FORMATS, get_format
from posemill.formats.shared.contract import Recipe
from posemill.testing.formats import make_clip

CASES = int(os.environ.get("POSEMILL_FUZZ_CASES", "0"))
MAX_SECONDS = 10.0
MAX_GROWTH_KB = 600_000
FORBIDDEN = {"os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "pickle.find_class",
             "socket.connect", "os.fork"}  # fmt: skip
seen_events = []
is_watching = False


def _watch(event, args):
    if is_watching and event in FORBIDDEN:
        seen_events.append(event)


sys.addaudithook(_watch)

EXTREMES = [
    *(struct.pack("<B", value) for value in (0, 1, 0x7F, 0x80, 0xFF)),
    *(struct.pack("<H", value) for value in (0, 0x7FFF, 0xFFFF)),
    *(struct.pack("<I", value) for value in (0, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)),
    *(struct.pack("<Q", value) for value in (2**31, 2**40, 2**62, 2**63, 2**64 - 1)),
    *(struct.pack("<f", value) for value in (float("nan"), float("inf"), -1e38)),
    b"-1", b"99999999999999999999", b"NaN", b"Infinity", b"null", b"[]", b"{}", b'""', b"true",
    b"1e400", b"[" * 2000, b"\n", b"../", b"\0" * 16,
]  # fmt: skip

KINDS = ("flip", "set", "cut", "drop", "double", "insert", "replace")
Edit = tuple[str, float, int, bytes]


def edits(rng):
    """Return one to four changes: what, where, how much, and the bytes of it."""
    return [
        (rng.choice(KINDS), rng.random(), rng.randrange(1 << 16), rng.choice(EXTREMES))
        for _ in range(rng.randint(1, 4))
    ]


def damage(data, changes):
    for kind, where, number, piece in changes:
        # Half of the damage goes to the first and the last kilobyte, where the headers are.
        near = int(where * min(len(data), 1024))
        at = (int(where * len(data)), near, max(len(data) - 1 - near, 0))[number % 3]
        size = 1 + number % 64
        if not data:
            return data
        if kind == "flip":
            data = data[:at] + bytes([data[at] ^ (1 << number % 8)]) + data[at + 1 :]
        elif kind == "set":
            data = data[:at] + bytes([number % 256]) + data[at + 1 :]
        elif kind == "cut":
            data = data[:at]
        elif kind == "drop":
            data = data[:at] + data[at + size :]
        elif kind == "double":
            data = data[: at + size] + data[at:]
        elif kind == "insert":
            data = data[:at] + piece + data[at:]
        else:
            data = data[:at] + piece + data[at + len(piece) :]
    return data


@pytest.fixture(scope="module", params=list(FORMATS))
def valid(request, tmp_path_factory):
    """A format, and a valid file or folder of it."""
    form = get_format(request.param)
    folder = tmp_path_factory.mktemp(request.param)
    path = folder / f"valid{form.suffix}"
    skeleton = "openpose-18" if "openpose-18" in form.layouts else form.layouts[0]
    clips = [make_clip(1, frames=2, skeleton=skeleton, extra={"a": 1}),
             make_clip(2, frames=1, skeleton=skeleton, split="dev", label="7")]  # fmt: skip
    form.write(clips, path, recipe=Recipe())
    return form, path, folder


def numbers():
    """Return the same numbers every time, but for a long search."""
    return random.Random() if CASES else random.Random(0)


def cases_for(name):
    return CASES or (150 if name in ("parquet", "huggingface", "hdf5") else 300)


def test_a_damaged_file_gives_clips_or_an_error_of_ours(valid):
    form, path, folder = valid
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    contents = {file: file.read_bytes() for file in files}
    outcomes = {"clips": 0, "error": 0}
    broken = folder / f"broken{form.suffix}"
    if path.is_dir():
        shutil.copytree(path, broken)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def read_damaged(file, changes):
        global is_watching
        target = broken / file.relative_to(path) if path.is_dir() else broken
        target.write_bytes(damage(contents[file], changes))
        started = time.process_time()
        is_watching = True
        try:
            for number, clip in enumerate(form.read(broken, size_wh=(64, 64))):
                assert len(clip.points) == len(clip.scores), changes
                assert number < 100_000, changes
            outcomes["clips"] += 1
        except PosemillError:
            outcomes["error"] += 1
        finally:
            is_watching = False
            target.write_bytes(contents[file])
        assert time.process_time() - started < MAX_SECONDS, changes

    rng = numbers()
    for _ in range(cases_for(form.name)):
        read_damaged(rng.choice(files), edits(rng))
    assert not seen_events
    assert outcomes["error"] > cases_for(form.name) // 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MAX_GROWTH_KB


def test_any_bytes_at_all_give_an_error_of_ours(valid):
    form, path, folder = valid
    if path.is_dir():
        pytest.skip("a folder; its files are damaged above")
    broken = folder / f"any{form.suffix}"
    rng, start = numbers(), path.read_bytes()[:16]
    for _ in range(cases_for(form.name) // 4):
        content = start[: rng.randint(0, 16)] + rng.randbytes(rng.randint(0, 300))
        broken.write_bytes(content)
        with pytest.raises(PosemillError):
            list(form.read(broken, size_wh=(64, 64)))


def test_the_watch_would_see_a_command_being_run():
    global is_watching
    is_watching = True
    try:
        os.system("true")
    finally:
        is_watching = False
    assert seen_events == ["os.system"]
    seen_events.clear()
