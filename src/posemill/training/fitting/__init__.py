"""Users' own models and data as a workload of the engine: all of `posemill.fit`."""
