"""`posemill frames`: videos decoded once, kept as pictures or packed bytes."""
