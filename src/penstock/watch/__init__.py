"""Views of a pipeline, all built from its event log."""
