"""The start of the interpreter of a `--fresh` rank: `python .../shmrun/fresh_start REPORT-FD ...` (see
`shmrun/start/run_fresh.py`).

Python puts this directory first on its path, and nothing else is in it. With `-m` it would be the current directory,
and another user's `json.py` (in /tmp, for example) would replace the module that we import.
"""

import sys

if sys.flags.safe_path:  # else the program's directory takes the place
    del sys.path[0]

from shmrun.start import run_fresh

if __name__ == "__main__":
    sys.exit(run_fresh.main())
