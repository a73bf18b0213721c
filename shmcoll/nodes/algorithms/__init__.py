"""The collectives over nodes, from their arguments to their result, in native code."""
