"""A rank of `door.py`: runs the function of a test, and writes what came of it."""

import pickle
import sys
import traceback
from pathlib import Path
from typing import Any

import cloudpickle

import shmcoll


def main() -> None:
    folder = Path(sys.argv[1])
    comm = shmcoll.init()
    function, args = pickle.loads((folder / "call").read_bytes())
    answer: tuple[Any, ...]
    try:
        answer = function(comm, *args), None, ""
    except BaseException as error:
        text = traceback.format_exc()
        error.__traceback__ = error.__context__ = error.__cause__ = None
        answer = None, error, text
    (folder / f"rank{comm.rank}").write_bytes(cloudpickle.dumps(answer))


if __name__ == "__main__":
    main()
