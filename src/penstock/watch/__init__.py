"""Spark's progress to an event log, to snapshots, to a screen."""
