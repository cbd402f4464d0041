"""A pipeline's storage: checkpoints, ledger, journal, lease, and the one place that spells their paths."""
