"""The job of two ranks that `shmrun doctor` runs."""

import shmcoll

shmcoll.init().barrier()
