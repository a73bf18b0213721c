"""Calling a function on ranks (`shmcoll.run`): the side of the caller, and the server.

The server is a process that has everything loaded, starts ranks by fork and watches them.

api             `run` and `shutdown`: what the caller uses
mapping         `map` and `imap`
pool            `ranks`: ranks that stay
executor        `Executor`, of `concurrent.futures`
arguments       what may be passed to them
outgoing        one call: its files, its way to the server and back
pickling        how functions, arguments and results are pickled
namespaces      the global variables of functions in ranks
repeated        large arrays that are sent again and again
shared_memory   arrays that caller and ranks map
chunks          the items of `map`, in chunks whose size is measured
map_call        the items on their way to the ranks, and their results
packets         the messages of these, whose large arrays the receiver maps
passing         messages with descriptors
progress        the bar
turns           one call at a time
client          the server, on the side of the caller

__main__        `python -m shmcoll.runner`: wait for calls, and serve one after the other
caller_socket   the process that started it, and the socket to it
protocol        the messages of the caller and the answers of the ranks; the caller uses it, too
supervise       the ranks: starting and watching them, and passing calls on
stuck_ranks     ranks that stay and wait for one that has answered
spawn           one process per rank
rank            a rank, on the side of the server

serve_calls     the calls in a rank
map_worker      a rank that works on items
answers         how a rank answers
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shmcoll.runner.api import run as run
    from shmcoll.runner.api import shutdown as shutdown


def __getattr__(name: str) -> Any:
    if name in ("run", "shutdown"):  # on first use: the server does not need the side of the caller
        return getattr(import_module("shmcoll.runner.api"), name)
    raise AttributeError(f"module 'shmcoll.runner' has no attribute {name!r}")
