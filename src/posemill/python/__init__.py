"""`mediapipe.python.solutions`: another name of `posemill.solutions`, as some scripts spell it."""

import sys

from posemill import solutions

# The same modules under the longer name, not copies with classes of their own.
sys.modules[f"{__name__}.solutions"] = solutions
for _name in solutions.__all__:
    sys.modules[f"{__name__}.solutions.{_name}"] = getattr(solutions, _name)

__all__ = ["solutions"]
