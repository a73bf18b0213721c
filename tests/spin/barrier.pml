/* Barriers of N ranks, with everything that can end one: a model of `exchange_headers` (engine/protocol/sync.py),
 * `sleep_until`, `look` and `wake` (engine/protocol/wait.py), `Group.abort` (engine/memory/group.py), and the launcher's part (engine/memory/records.py).
 *
 *     here            there
 *     sequence[2N]    HEADER_SEQUENCE of header s & 1 of each rank
 *     payload[2N]     what stands beside it: fingerprint, payload, table
 *     parked[N]       PARKED: 0, or 1 + the rank that it sleeps for
 *     bell[N]         SEMAPHORE
 *     ended           ABORT of the group
 *     record[N]       RECORD_STATE, the rank's own and the launcher's in one: silent, or not below LEFT
 *     entered[N]      nothing: a ghost, the last barrier that a rank has begun
 *     disturbance     nothing: what goes wrong in this run, at most one thing, at any step
 *
 * One statement is one operation on a shared word. Left out: polling and yielding (they look at the same word without
 * saying so first); the end of a slice, and with it pidfds and deadlines, so that a ring which is lost shows as a rank
 * that sleeps for ever; memory that reorders, which tests/schedule has (here a fence is nothing).
 *
 * Claims. Safety: the assertions. Nobody leaves a barrier before all have entered it; what is read beside a header
 * belongs to it; nothing fails without a reason; who is said to have left has not published what was waited for.
 * Liveness: no invalid end states, and the graph of states has no cycle (a search for non-progress cycles, with no
 * state marked as progress, finds none): so every run ends, and ends with every rank returned or dead.
 */

#define N      3
#ifndef ROUNDS
#define ROUNDS 2
#endif
#define DISTURBED 0  /* which rank: they are alike but for their numbers, so one stands for all */
#define HEADER(rank, s) (2 * (rank) + ((s) & 1))
#define REACHED(rank, s) (sequence[HEADER(rank, s)] >= (s))

mtype = { OK, PREPARE, ABORTED, PEER_LOST, INTERRUPTED };
mtype = { nothing, kill, interrupt, leave, no_more };

byte sequence[2 * N];
byte payload[2 * N];
byte parked[N];
bit bell[N];
bit ended;
bit record[N];

byte entered[N];
mtype disturbance = nothing;

inline ring_all() { d_step { bell[0] = 1; bell[1] = 1; bell[2] = 1 } }

inline ring_if_parked(other) {
    if
    :: parked[other] == me + 1 -> bell[other] = 1
    :: else
    fi
}

inline wake() {
    atomic { ring_if_parked((me + 1) % N) };
    atomic { ring_if_parked((me + 2) % N) }
}

inline look() {
    atomic { if :: REACHED(peer, s) -> status = OK; goto looked :: else fi };
    atomic { if :: ended -> status = ABORTED; goto again :: else fi };
    atomic { if :: record[peer] -> status = PEER_LOST; goto again :: else fi };
    goto looked;
again:
    atomic { if :: REACHED(peer, s) -> status = OK :: else fi };
looked: skip
}

inline sleep_on_bell() {
    if
    :: atomic { bell[me] -> bell[me] = 0 }
    :: atomic { disturbance == nothing && me == DISTURBED -> disturbance = interrupt; status = INTERRUPTED }
    fi
}

inline publish() { sequence[HEADER(me, s)] = s }

inline forget() { peer = 0; turn = 0; status = PREPARE }

proctype rank(byte me) {
    byte s = 1, turn, peer;
    mtype status = PREPARE;
    {
        do
        :: atomic { s > ROUNDS -> break }
        :: atomic { s > ROUNDS -> goto done }  /* it lives on and does something else: no ring of its end helps */
        :: atomic { s == ROUNDS && disturbance == nothing && me == DISTURBED -> disturbance = leave; break }
        :: atomic { s <= ROUNDS -> payload[HEADER(me, s)] = s; entered[me] = s };
            publish(); wake();
            atomic { turn = 1; peer = (me + turn) % N };
            do
            :: parked[me] = peer + 1;
                look();
                if :: status == PREPARE -> sleep_on_bell() :: else fi;
                atomic { parked[me] = 0; if :: status == PREPARE :: status == OK -> goto arrived :: else -> goto failed fi };
                atomic { if :: REACHED(peer, s) -> goto arrived :: else -> goto asleep fi };
arrived:
                atomic {
                    assert(payload[HEADER(peer, s)] == s);
                    assert(sequence[HEADER(peer, s)] == s);
                    status = PREPARE; turn++; peer = (me + turn) % N;
                    if :: turn == N -> break :: else fi
                };
asleep:         skip
            od;
            atomic { assert(entered[0] >= s && entered[1] >= s && entered[2] >= s); forget(); s++ }
        od;
        record[me] = 1;
        ring_all();
        goto done;
failed:
        atomic {
            assert(disturbance != nothing && disturbance != no_more);
            assert(status != PEER_LOST || !REACHED(peer, s));
            if :: status == ABORTED -> goto done :: else fi
        };
        ended = 1;
        ring_all();
done:   atomic { forget(); s = 0 }
    } unless { atomic { disturbance == kill && me == DISTURBED -> forget(); s = 0 } }
}

proctype launcher() {
end:
    if
    :: disturbance == nothing -> disturbance = kill
    fi;
    record[DISTURBED] = 1;
    ended = 1;
    ring_all()
}

init {
    atomic {
        if :: disturbance = no_more :: true fi;  /* else a kill that may still come would hide every deadlock */
        run rank(0); run rank(1); run rank(2); run launcher()
    }
}
