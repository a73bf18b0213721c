"""How waits between nodes poll, nap, and look around: all their numbers.

Every wait tests MPI, which is also what moves messages: at first without a pause, then with its core yielded between
two tests, and with a nap between two tests once what it waits for is overdue. Between tests it looks around now and
then: at the control channel, the lives of its node, the clock. Times are in seconds, in native code in ns.
"""

# --- tests of requests
POLLS = 200  # without a pause, unless the node has more ranks than cores
MESSAGE_POLLS = 2000  # the same of a thread that waits for one message, before it naps
LOOKS = 32  # between two looks around, as long as the wait does not nap
WATCH_EVERY = 128  # the same in native code
CLOCK_EVERY = 16  # between two looks of native code at the clock, in a wait for a message
SEND_TESTS = 100  # of a send before a thread is started for it, which takes longer
SENDS_TESTED = 8  # at a time: each test moves what can be moved of all
LAST_LOOKS = 1000  # for control messages before this rank tells that it leaves

#: of a rank that waits in a node with more ranks than cores, before it sleeps. Linux gives it no less of the core than
#: the leader, for which it waits: with 32 yields, calls of 4 and 8 ranks on 2 cores take 1.0 to 1.5 times as long
YIELDS_IN_NODE = 4

# --- naps
AWAKE = 2e-3  # before the first one, if there are few bytes; and
SLOWEST = 200e6  # bytes per second of a message that is on its way: MPI moves a part of it in each test
MESSAGE_AWAKE = 20e-3  # the same for a message that may come at any time
NAP = 100e-6
LONGEST_NAP = 200e-6  # in a collective
SLICE = 500e-6  # of a thread of ours, which nobody waits for

# --- looks around
LIVES = 0.02  # at the lives of the node's ranks
DRAINS = 0.02  # at messages that nobody waits for
CONTROL = 0.05  # of the thread at the control channel
RECEIVES = 1e-3  # for receives that are late

# --- native waits for a message, before Python waits for it
MOMENT_NS, MOMENT_BETWEEN_NS = 200_000, 10_000  # of any one; if messages may come within the node, too
WAIT_NS = 2_000_000  # of one from a known rank
ATTEMPT_NS = 100_000  # for bytes to go, and a time in proportion to them
LEAVE_NS = 1_000_000  # for what has begun to come
ASKING_BYTES = 512 << 10  # that are not sent before the receiver is ready: over TCP, 256 KiB are copied in less time
ASKING_NS = 30_000  # for that, and
BYTES_A_NS = 16  # of the message in the same time
SOON = 2e-3  # that a receive from ANY waits before it is posted

# --- limits
DISAGREEING = 10.0  # for all others to say what they have called, after a leader has found that calls differ
TELLING = 5.0  # for the sends of a control message; then MPI counts as stuck
TELLING_LOOKS = 50  # at them meanwhile: a process that was stopped goes on with the rest of its seconds
LEAVING = 1.0  # for the end of the ranks of other nodes
LEAVING_BYTES = 2.0  # for the bytes of an interrupted call
AFTER_LEAVING = 1.0  # until a message of a rank that has left counts as lost
