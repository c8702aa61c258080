from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
import numpy as np
from posemill.decoders.memory import keep_freed_memory

def faults_per_frame():
    kept = np.ones(1), np.ones(1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for number in range(100):
        kept = np.ones((720, 1280, 3), np.uint8), kept[0]
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 100

print(faults_per_frame(), keep_freed_memory(), faults_per_frame())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a setting of glibc")
def test_freed_frames_are_used_again_without_the_kernel() -> None:
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    before, is_set, after = result.stdout.split()
    assert is_set == "True"
    assert float(after) < 40  # three frames of 675 pages, once
    assert float(before) > float(after)
