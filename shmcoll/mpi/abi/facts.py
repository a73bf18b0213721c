"""The ABI that MPICH and its kin share: functions with their arguments in C, and constants. See `from_header.py`."""

import json
from pathlib import Path

_FACTS = json.loads(Path(__file__).with_name("facts.json").read_bytes())

#: by name: the type of the result, and each argument's type and name, as in C
FUNCTIONS: dict[str, list[str]] = _FACTS["functions"]

#: integers, by name
CONSTANTS: dict[str, int] = _FACTS["constants"]

#: the functions of the library, in the order of their slots
NAMES = tuple(FUNCTIONS)
