"""`mp.solutions.face_mesh`: not here yet; importing it says what to use instead."""

from posemill.solutions import not_here

raise not_here("face_mesh")
