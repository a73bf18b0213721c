"""The arena and what lies in it, as plain Python sees it."""
