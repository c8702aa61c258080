"""An engine and a format for posemill."""
