"""From source code to an address, with object files kept on disk."""
