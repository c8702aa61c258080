"""`timeout -s TERM`, as schedulers do it: to the process, and to its group."""

from __future__ import annotations

import random
import shutil

import pytest

from benchmarks.datasets.faults import terminate_groups


@pytest.mark.skipif(shutil.which("timeout") is None, reason="needs the program `timeout`")
def test_every_frame_shown_as_done_is_there_after_timeout_ended_the_group(tmp_path):
    result = terminate_groups(tmp_path, 1, random.Random(5))
    assert result["terms_with_frames_done"].value >= 1
    assert result["frames_shown_and_lost"].value == 0
    assert result["terminated_runs_that_differ"].value == 0
