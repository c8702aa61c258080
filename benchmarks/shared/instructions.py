"""Instructions instead of seconds: the second measure, which a busy machine does not change.

`perf stat` has no counters on most virtual machines, so callgrind counts: a simulated processor
(AVX2, whatever the real one has), some fifty times slower. A script that is started again under it
by `count_here` may count single calls by `Counter`; the rest of it runs uncounted and faster.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.shared.measuring import not_here

# Valgrind's request: a sequence of rotations that changes nothing and that no compiler emits.
# mov rax, rdi; xor edx, edx; rol rdi, 3; rol rdi, 13; rol rdi, 61; rol rdi, 51; xchg rbx, rbx;
# mov rax, rdx; ret
_REQUEST = bytes.fromhex("4889f8 31d2 48c1c703 48c1c70d 48c1c73d 48c1c733 4887db 4889d0 c3")
_CALLGRIND = ord("C") << 24 | ord("T") << 16
_DUMP, _START, _STOP = (_CALLGRIND + number for number in (0, 4, 5))


def missing() -> str:
    """Return why instructions cannot be counted here; empty where they can."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return f"instructions are counted on x86-64 only, not on {platform.machine()}"
    if shutil.which("valgrind") is None:
        return "instructions need valgrind; run: apt-get install valgrind"
    return ""


def count_process(command: Sequence[str | Path]) -> int:
    """Return the instructions of a whole command, children not included."""
    with tempfile.TemporaryDirectory() as folder:
        _under_callgrind(command, folder)
        return _total(Path(folder))


def count_here(module: str, *arguments: str) -> dict[str, int]:
    """Return what a benchmark of ours prints (JSON, last line) when it runs under callgrind."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", module, *arguments, folder]
        words = _under_callgrind(command, folder, "--instr-atstart=no")
    counts: dict[str, int] = json.loads(words.splitlines()[-1])
    return counts


def _under_callgrind(command: Sequence[str | Path], folder: str, *options: str) -> str:
    if reason := missing():
        not_here(reason)
    valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", *options]
    done = subprocess.run([*valgrind, *command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{done.stdout}{done.stderr}\nended with {done.returncode} in valgrind")
    return done.stdout


def _total(folder: Path) -> int:
    """Return the sum of the newest file of counts."""
    newest = max(folder.glob("out*"), key=lambda path: path.stat().st_mtime_ns)
    found = re.search(r"^(?:totals|summary): (\d+)", newest.read_text(), re.M)
    if found is None:
        raise SystemExit(f"callgrind wrote no total into {newest}")
    return int(found[1])


class Counter:
    """Counts single calls of a process that `count_here` started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE
                               | mmap.PROT_EXEC)  # fmt: skip
        self._page.write(_REQUEST)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._page))
        self._call = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)(address)

    def count(self, call: Callable[[], Any]) -> int:
        """Return the instructions of a call."""
        self._request(_START)
        self._request(_DUMP)  # a file of counts tells those since the file before
        call()
        self._request(_DUMP)
        self._request(_STOP)
        return _total(self._folder)

    def _request(self, number: int) -> None:
        arguments = (ctypes.c_uint64 * 6)(number)
        self._call(ctypes.addressof(arguments))
