"""`jit` and `simulate` of `nki`: a kernel is a Python function, and calling it runs it, on numpy arrays.

NKI compiles a kernel for the hardware. Here the body runs as Python, statement by statement, once on each rank. So the
collectives in it are made in the order in which they are written.
"""

from collections.abc import Callable
from functools import update_wrapper
from typing import Any


class Kernel:
    """The result of `jit`: a function that is called as it is, or with a number of cores, `kernel[2](x)`.

    func: the function.
    """

    def __init__(self, func: Callable[..., Any]):
        self.func = func
        update_wrapper(self, func)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.func(*args, **kwargs)

    def __getitem__(self, lnc: Any) -> "Kernel":
        """Return the kernel itself: each rank runs it as one program, whatever the number of cores is."""
        return self


def jit(
    fn: Callable[..., Any] | None = None,
    *,
    compile_config: Any = None,
    specialization_config: Any = None,
    **kwargs: Any,
) -> Any:
    """Make a kernel: `@jit`, or `@jit(...)` with options for NKI's compiler, which have no effect.

    Args:
        fn: the function.
        compile_config: has no effect.
        specialization_config: has no effect.
        kwargs: options of other versions of NKI, which have no effect.

    Returns:
        A `Kernel`; without `fn`, a decorator that makes one.

    Raises:
        TypeError: `fn` is not a function.
    """
    if fn is not None and not callable(fn):
        raise TypeError(f"jit: fn must be a function, got {type(fn).__name__}; write @nki.jit above one")
    return Kernel if fn is None else Kernel(fn)


def simulate(kernel: Callable[..., Any]) -> Any:
    """Return the kernel, which runs on CPUs anyway.

    Args:
        kernel: a `Kernel`, or a function.

    Raises:
        TypeError: it is neither.
    """
    if not callable(kernel):
        name = type(kernel).__name__
        raise TypeError(f"simulate: kernel must be a function, got {name}; call it as nki.simulate(kernel)(x)")
    return kernel if isinstance(kernel, Kernel) else Kernel(kernel)
