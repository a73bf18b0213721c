"""From the options to running ranks."""
