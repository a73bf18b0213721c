"""From source to an address, kept on disk."""
