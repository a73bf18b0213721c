"""Results as a table, as JSON, as curves."""
