"""The Spark driver of a pipeline: a process that its supervisor starts, tells to go, and restarts."""
