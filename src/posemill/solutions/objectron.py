"""`mp.solutions.objectron`: not here; importing it says so in words."""

from posemill.solutions import why_not_here

raise ImportError(why_not_here("objectron"))
