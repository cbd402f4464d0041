"""What every batch leaves behind in the storage, and whether the checkpoint still agrees with it."""
