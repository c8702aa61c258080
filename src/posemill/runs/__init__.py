"""Runs on the disk: Parquet shards, commit records, a manifest."""
