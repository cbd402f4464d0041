"""Compares `penstock check` with Spark's own verdict on generated pipelines."""
