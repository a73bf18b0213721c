"""The arena and what is stored in it, as plain Python sees it."""
