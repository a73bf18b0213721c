"""The opening of a call over nodes, in native code: all ranks make the same call, and share what they contribute."""
