import subprocess
import sys

import pytest

from posemill.machine import allocator
from posemill.machine.allocator import freed_memory_returned, keep_freed_memory

# How many pages come anew when blocks of 24 MB are freed and asked for ten times.
COUNT = """
import resource, sys
import numpy as np
from posemill.machine.allocator import freed_memory_returned, keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
if sys.argv[1] == "returned":
    with freed_memory_returned():
        keep_freed_memory()
np.full(6 << 20, 1.0, np.float32)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    a, b = np.full(6 << 20, 1.0, np.float32), np.full(6 << 20, 2.0, np.float32)
    del a, b
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def count_pages(freed):
    command = [sys.executable, "-c", COUNT, freed]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is Linux's")
def test_freed_memory_is_used_again_without_asking_the_system():
    usual, kept = count_pages("as usual"), count_pages("kept")
    assert kept < usual / 3, (kept, usual)
    assert count_pages("returned") > kept * 2


def test_what_was_kept_is_returned_where_a_training_fails(monkeypatch):
    calls = []
    monkeypatch.setattr(allocator, "_set_options", calls.append)
    with pytest.raises(KeyboardInterrupt), freed_memory_returned():
        raise KeyboardInterrupt
    assert len(calls) == 1


def test_who_set_malloc_by_the_environment_is_left_alone(monkeypatch):
    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")
    with freed_memory_returned():
        assert not keep_freed_memory()
