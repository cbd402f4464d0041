"""The one door to Spark: sessions, Spark's internals, Spark's errors."""
