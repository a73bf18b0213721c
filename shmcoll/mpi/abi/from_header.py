"""Write `facts.json` from the public header of an MPICH: `python -m shmcoll.mpi.abi.from_header FOLDER`

FOLDER is the `include` folder of an installed MPICH, for instance of its wheel. What is taken are facts: the names of
functions, the types and names of their arguments, and the values of constants. A test compares the file with a header.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from shmcoll.engine.system.text import read_text, to_bytes

_FUNCTION = re.compile(r"^(\w[\w *]*?)\s*\b(MPIX?_\w+)\s*\(([^;{}]*?)\)\s*MPICH_API_PUBLIC\s*;", re.M)
_TOOLS = "MPI_T_"  # its variables and events describe MPICH itself


def facts(folder: Path) -> dict[str, Any]:
    """Return what the headers in a folder say.

    Returns:
        `functions`: by name, the type of the result and the arguments, each as its type and name in C.
        `constants`: by name, the integers.
    """
    raw = "".join(read_text(folder / name) for name in ("mpi.h", "mpi_proto.h"))
    text = re.sub(r"/\*.*?\*/", " ", raw, flags=re.S)
    text = re.sub(r"MPICH_ATTR_POINTER_WITH_TYPE_TAG\([^)]*\)", " ", text)
    functions = {
        name: [result.strip(), *_arguments(arguments)]
        for result, name, arguments in _FUNCTION.findall(text)
        if not name.startswith(_TOOLS)
    }
    return {"functions": dict(sorted(functions.items())), "constants": dict(sorted(_constants(text).items()))}


def _arguments(text: str) -> list[str]:
    found = [" ".join(one.split()) for one in text.split(",")]
    return [one for one in found if one not in ("", "void")]


def _constants(text: str) -> dict[str, int]:
    constants = {}
    for name, value in re.findall(r"^#\s*define\s+(MPIX?_\w+)\s+(.+)$", text, flags=re.M):
        number = re.search(r"(-?(?:0x[0-9a-fA-F]+|\d+))\)*\s*$", value)
        if number and not re.search(r'[+%"]', value):
            constants[name] = int(number[1], 0)
    for body in re.findall(r"enum\s+\w*\s*\{(.*?)\}", text, flags=re.S):
        for name, value in re.findall(r"(MPIX?_\w+)\s*=\s*(-?\d+)", body):
            constants[name] = int(value)
    return constants


if __name__ == "__main__":
    target = Path(__file__).with_name("facts.json")
    target.write_bytes(to_bytes(json.dumps(facts(Path(sys.argv[1])), indent=0) + "\n"))
