"""Runs on the disk: Parquet shards, commit records, a manifest.

Heavy imports wait: `posemill.runs.reader.open_run` and `posemill.runs.writer.RunWriter`.
"""
