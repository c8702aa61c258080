"""`mp.solutions.pose`: not here yet; importing it says what to use instead."""

from posemill.solutions import not_here

raise not_here("pose")
