"""`posemill serve`: runs, clips and trainings in a browser, read from the disk as they are now."""
