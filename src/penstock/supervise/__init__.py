"""The process that keeps a pipeline's driver running: when to restart, as arithmetic, and the loop that obeys it."""
