"""`Cell`, the base of networks: calling it runs `construct`. There is no graph; everything runs as plain Python."""

from typing import Any


class Cell:
    """Derive from it, keep primitives as attributes, define `construct`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.construct(*args, **kwargs)

    def construct(self, *args: Any, **kwargs: Any) -> Any:
        """Compute what the cell computes. The derived class defines it."""
        raise AttributeError("For 'Cell', the method 'construct' is not defined.")
