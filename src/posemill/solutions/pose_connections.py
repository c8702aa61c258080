"""Which of the 33 points of a body are joined by lines."""

from __future__ import annotations

from posemill.skeletons.layouts import POSE_BONES

POSE_CONNECTIONS = frozenset(POSE_BONES)
