"""`mediapipe.framework`, as far as scripts that draw landmarks use it."""

from posemill.framework import formats

__all__ = ["formats"]
