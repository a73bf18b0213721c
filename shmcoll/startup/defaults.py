"""The default time limits in seconds. `shmrun --help` reads this file, so it imports nothing."""

WAIT_TIMEOUT = 300.0  # one wait within a collective: SHMCOLL_TIMEOUT, `shmrun --wait-timeout`, `comm.timeout`
JOIN_TIMEOUT = 60.0  # how long ranks wait for each other to join: SHMCOLL_JOIN_TIMEOUT
STALL_WARNING = 20.0  # how long a rank may keep others waiting before a warning: `shmrun --stall-warning`
GRACE = 1.0  # how long the other ranks may go on after the first failure: `shmrun --grace`
