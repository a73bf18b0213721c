"""Whether the threads of the program are threads of the operating system.

gevent and eventlet replace `threading` by threads that run one after the other in one thread of the system. A thread of
ours would never run while another one waits in native code, and native code knows threads by other numbers.
"""

import ctypes
import threading

from shmcoll.errors import CallNotAllowed

_native = ctypes.pythonapi.PyThread_get_thread_ident
_native.restype, _native.argtypes = ctypes.c_ulong, ()


def check_threads(operation: str) -> None:
    """Raise if `threading` has been replaced."""
    if threading.get_ident() != _native():
        raise CallNotAllowed(
            f"{operation}: gevent, eventlet or the like has replaced Python's threads, and shmcoll needs real ones; "
            f"call gevent.monkey.patch_all(thread=False, queue=False) or eventlet.monkey_patch(thread=False) instead"
        )
