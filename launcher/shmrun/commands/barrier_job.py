"""What `shmrun doctor` has two ranks do."""

import shmcoll

shmcoll.init().barrier()
