"""`python -m shmcoll`: what there is, and where to go on. Imports neither numpy nor numba."""

import sys

import shmcoll

_HELP = f"""\
shmcoll {shmcoll.__version__}: collective communication for the processes of one machine

  shmrun -n 4 script.py     run a script on 4 ranks, which call shmcoll.init()
  shmrun doctor             check this machine
  shmrun warm               compile everything now
  shmrun ps                 list the jobs that run
  shmrun inspect PID        show which rank of a job waits for which
  shmbench all_reduce       measure
  shmcoll.run(f, 4)         call a function on 4 ranks, from a notebook, a test or a script

More: shmrun --help, shmbench --help, and in Python help(shmcoll)
"""


def main() -> int:
    """Print a short help. Returns 0, or 2 if there were arguments: there is nothing to run here."""
    if sys.argv[1:] and not {"-h", "--help", "-V", "--version"} >= set(sys.argv[1:]):
        print(f"shmcoll: nothing runs by this name; did you mean shmrun {' '.join(sys.argv[1:])}?", file=sys.stderr)
        return 2
    print(f"shmcoll {shmcoll.__version__}" if {"-V", "--version"} & set(sys.argv[1:]) else _HELP.rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
