"""Messages between two ranks of a group over nodes."""
