"""Results of slow per-sample steps, kept for any data set: `posemill.cache_dataset`."""
