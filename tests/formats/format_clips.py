"""Clips of every skeleton, with holes, for the tests of formats."""

from posemill.testing.formats import assert_same, make_clip, make_clips

__all__ = ["assert_same", "make_clip", "make_clips"]
