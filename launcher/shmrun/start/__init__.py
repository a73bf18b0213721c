"""From what is wanted to running ranks."""
