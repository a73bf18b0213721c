"""`Primitive`: what all operators share."""

from typing import Any

from shmcoll.mindspore import arrays


class Primitive:
    """An operation with named attributes, which describe it to MindSpore's graph compiler; there is none here."""

    def __init__(self, **attrs: Any):
        self.name = type(self).__name__
        self.attrs = attrs

    def add_prim_attr(self, name: str, value: Any) -> "Primitive":
        """Set an attribute and return self. Raises `TypeError` if "fusion" is not an integer."""
        if name == "fusion" and not is_int(value):
            raise TypeError(f"For '{self.name}', the 'fusion' must be int, but got {type(value).__name__}.")
        self.attrs[name] = value
        return self

    def __repr__(self) -> str:
        return f"Prim[{self.name}]<{', '.join(f'{name}={value}' for name, value in self.attrs.items())}>"

    def _as_array(self, x: Any) -> Any:
        if not arrays.is_tensor(x):
            raise TypeError(f"For '{self.name}', input must be a Tensor, but got: {type(x).__name__}.")
        return arrays.to_numpy(x)


def is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
