"""Initializers, which fill new tensors, and their names."""

from typing import Any

import numpy as np


class Initializer:
    """The base of initializers. A derived class defines `_initialize(array)`, which fills a numpy array."""

    def _initialize(self, array: np.ndarray) -> None:
        raise NotImplementedError("an initializer defines _initialize(array)")


class Constant(Initializer):
    """Fill with one value."""

    def __init__(self, value: Any):
        self.value = value

    def _initialize(self, array: np.ndarray) -> None:
        array[...] = self.value


class Zero(Constant):
    """Fill with zeros."""

    def __init__(self) -> None:
        super().__init__(0)


class One(Constant):
    """Fill with ones."""

    def __init__(self) -> None:
        super().__init__(1)


class Normal(Initializer):
    """Fill with numbers from a normal distribution. `numpy.random.seed` repeats them."""

    def __init__(self, sigma: float = 0.01, mean: float = 0.0):
        self.sigma, self.mean = sigma, mean

    def _initialize(self, array: np.ndarray) -> None:
        array[...] = np.random.normal(self.mean, self.sigma, array.shape)


class Uniform(Initializer):
    """Fill with numbers from -scale to scale. `numpy.random.seed` repeats them."""

    def __init__(self, scale: float = 0.07):
        self.scale = scale

    def _initialize(self, array: np.ndarray) -> None:
        array[...] = np.random.uniform(-self.scale, self.scale, array.shape)


NAMED = {"zeros": Zero, "ones": One, "normal": Normal, "uniform": Uniform}


def fill(array: np.ndarray, init: Any) -> np.ndarray:
    """Fill an array with an initializer, its name or a number, and return it. Raises `ValueError` for other names."""
    if isinstance(init, str):
        if init.lower() not in NAMED:
            raise ValueError(f"For 'initializer', {init!r} is not one of {', '.join(NAMED)}.")
        init = NAMED[init.lower()]()
    (init if isinstance(init, Initializer) else Constant(init))._initialize(array)
    return array
