"""Temporary queries that show rows: `preview`, `sql`, Explore and the notebook."""
