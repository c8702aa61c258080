"""Runs on the disk: Parquet shards, commit records, a manifest.

Heavy imports wait: `posemill.stores.reader.open_run` and `posemill.stores.writer.RunWriter`.
"""
