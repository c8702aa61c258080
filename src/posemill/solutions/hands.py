"""`mp.solutions.hands`: not here yet; importing it says what to use instead."""

from posemill.solutions import not_here

raise not_here("hands")
