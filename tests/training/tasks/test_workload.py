"""What a training works on: splits know their lengths, and workloads share nothing."""

from __future__ import annotations

import numpy as np

from posemill.training.tasks.workload import Split, Workload, equal_lengths


def test_samples_that_are_all_alike_have_one_frame_each():
    lengths = equal_lengths(3)
    assert (lengths.tolist(), lengths.dtype) == ([1, 1, 1], np.int64)
    assert len(equal_lengths(0)) == 0


def test_a_split_is_as_long_as_it_has_samples():
    split = Split([], np.array([5, 7]))
    assert len(split) == 2
    assert (split.scorer, split.show) == (None, None)


def test_workloads_do_not_share_what_they_were_not_given():
    one, other = (Workload(None, None, None, None, None, {}) for _ in range(2))
    assert (one.tests, one.recipe, one.class_names, one.skeleton_name) == ({}, {}, (), None)
    assert one.tests is not other.tests
    assert one.recipe is not other.recipe
