"""The end of a rank of another launcher: delayed, so that the launcher names the rank that failed first.

Such launchers know only when each process ends, and with which code. Ranks that raise `RankFailed`, because another
rank has failed, may end before that rank does. So a rank that ends by an uncaught `RankFailed` waits for PATIENCE
seconds when everything else has been done. Its traceback has been printed by then.

torchrun also names a file for the exception that ends a rank. A rank whose exception is not a consequence of another
rank's failure writes it, in the format of `torch.distributed.elastic`. The program may have written it already, by
`@record`; then it stays. The file is written only into a directory that nobody else can write to.
"""

import atexit
import contextlib
import json
import os
import time
import traceback
from pathlib import Path

from shmcoll.engine.system import trusted_files
from shmcoll.engine.system.text import to_bytes
from shmcoll.runtime import uncaught

PATIENCE = 0.3  # seconds


def install() -> None:
    """Make this process end as described above if an exception ends it."""
    me = os.getpid()
    is_secondary = False

    def failed(error: BaseException) -> None:
        nonlocal is_secondary
        if os.getpid() != me:
            return
        is_secondary = uncaught.is_consequence(error)
        path = os.environ.get("TORCHELASTIC_ERROR_FILE")
        if path and not is_secondary:
            with contextlib.suppress(OSError):
                _write_error_file(Path(path), error)

    def wait() -> None:
        if os.getpid() == me and is_secondary:
            time.sleep(PATIENCE)

    uncaught.tell_of_end(failed)
    atexit.register(wait)


def _write_error_file(path: Path, error: BaseException) -> None:
    trusted_files.check_folder(path.parent)
    if path.exists():
        return
    trace = "".join(traceback.format_exception(error))
    extra = {"py_callstack": trace, "timestamp": str(int(time.time()))}
    message = {"message": uncaught.in_words(error), "extraInfo": extra}
    trusted_files.write(path, to_bytes(json.dumps({"message": message})))
