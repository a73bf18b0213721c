/* How ranks meet in an arena that has a name: a model of `startup/rendezvous.py` and `startup/arena_names.py`, and of the
 * kernel: which process holds which lock, and what a kill releases.
 *
 *     here                   there
 *     named[arena]           whether the arena's own name is in /dev/shm. A name is never used again
 *     stage[arena]           the two records of rank 0 (`_stage`)
 *     made_by(arena)         JOB_CREATOR and JOB_CREATOR_START
 *     REGISTERED(arena, r)   record of rank r by itself: the process, or GIVEN_UP (FAILED)
 *     ADMITTED(arena, r)     record of rank r by the launcher (here rank 0): the process
 *     lock[arena]            the process that holds flock(2) on it: 0, or 1 + process
 *     before(a, b)           whether the name of a sorts before the name of b: no matter which, for rank 0s are alike
 *     alive                  a bit per process: what `has_ended` finds
 *     late                   that SHMCOLL_JOIN_TIMEOUT has passed
 *     joined[process]        nothing there: the arena in which the process has joined
 *
 * Processes 1 and 2 are ranks 1 and 2; process 5 claims to be rank 1, too. Processes 0, 3, 4 claim to be rank 0: started
 * at once by mistake, or one after the other was killed. Their arenas are 1, 2, 3. One statement is one system call or
 * one operation on a shared word, except for the scan of a joining rank, which is one step: what it finds is only a
 * hint, and the rank checks it again under the lock. The scan of a rank 0 looks at one name per step.
 * An arena gets its name when it is finished; before that it has none, and a kill leaves nothing. Slices of 20 ms stand
 * for the doorbells, so these are left out. Files of other users are left out: no process looks at more than their
 * owner.
 *
 * Claims, for up to KILLS kills at any step: at most one arena is open whose creator lives and whose name exists; no
 * process removes the name of an arena that is claimed or open and whose creator lives; no rank is let in before all
 * have registered, and none registers after that; no two processes are let in as one rank; ranks 1 and 2 never join
 * different arenas, except when a second process plays rank 1; where nobody was killed, both join, and no name stays;
 * a name that a kill leaves is removed by the next job; every process ends.
 */

#ifndef KILLS
#define KILLS 1
#endif
#ifndef CREATORS
#define CREATORS 2  /* 1 to 3; at least one of them runs */
#endif
#ifndef JOINERS
#define JOINERS 2   /* 0, 2 or 3 */
#endif
#define NEXT     6
#define GIVEN_UP 9
#define CLAIMED   0
#define OPEN      1
#define CLOSED    2
#define WITHDRAWN 3
#define made_by(arena) ((arena) == 1 -> 0 : (arena) + 1)
#define arena_of(process) ((process) == 0 -> 1 : (process) - 1)
#define lives(process)  (alive >> (process) & 1)
#define bit_of(process) (1 << (process))
#define REGISTERED(arena, rank) registered[2 * (arena) + (rank) - 3]
#define ADMITTED(arena, rank)   admitted[2 * (arena) + (rank) - 3]
#define is_there(arena, rank) \
    (JOINERS == 0 || (REGISTERED(arena, rank) != 0 && REGISTERED(arena, rank) != GIVEN_UP && lives(REGISTERED(arena, rank))))
#define is_over(arena)  (stage[arena] == WITHDRAWN || !lives(made_by(arena)))
#define before(a, b)    ((a) < (b))
#define is_open(arena)  (named[arena] && stage[arena] == OPEN && lives(made_by(arena)))
#define hint(arena)     (named[arena] && (stage[arena] == OPEN || !lives(made_by(arena))))

bit named[4];
byte stage[4];
byte registered[6];
byte admitted[6];
byte lock[4];
byte joined[6];
byte alive;
bit late;
byte kills;
byte creators;
byte running;
bit patient;  /* whether only what can never come is given up */

inline end_process() { atomic { alive = alive & ~bit_of(me); running--; other = 0 } }

inline remove_leftover(arena) { atomic { assert(!named[arena] || !lives(made_by(arena))); named[arena] = 0 } }

inline unlock(arena) { lock[arena] = 0 }

/* One name of a scan: go on with the next one, give up, or begin again after a change. */
inline look_at(arena) {
    if
    :: !named[arena]
    :: else ->
        if
        :: !lives(made_by(arena)) -> remove_leftover(arena)
        :: else ->
            if
            :: stage[arena] >= CLOSED
            :: stage[arena] == OPEN -> goto withdraw
            :: stage[arena] == CLAIMED ->
                if
                :: before(arena, mine) -> goto withdraw
                :: else ->
                    if
                    :: (!named[arena] || !lives(made_by(arena)) || stage[arena] != CLAIMED) -> goto scan
                    :: late -> goto withdraw
                    fi
                fi
            fi
        fi
    fi
}

inline open_for_all() {
    atomic {
        assert(!is_open(1) && !is_open(2) && !is_open(3));
        stage[mine] = OPEN
    }
}

inline close_to_newcomers() { stage[mine] = CLOSED }

inline gather() {
    do
    :: late -> goto withdraw
    :: (is_there(mine, 1) && is_there(mine, 2)) ->
        if
        :: atomic { lock[mine] == 0 -> lock[mine] = me + 1 }
        :: late -> goto withdraw
        fi;
        if
        :: is_there(mine, 1) ->
            if
            :: is_there(mine, 2) -> close_to_newcomers(); unlock(mine); break
            :: else -> unlock(mine)
            fi
        :: else -> unlock(mine)
        fi
    od
}

inline take_away() { named[mine] = 0 }

inline admit(rank) {
    atomic {
        assert(JOINERS == 0 || (!named[mine] && stage[mine] == CLOSED));
        assert(JOINERS == 0 || REGISTERED(mine, 1) != 0 && REGISTERED(mine, 2) != 0);
        assert(ADMITTED(mine, rank) == 0);
        if
        :: REGISTERED(mine, rank) != GIVEN_UP -> ADMITTED(mine, rank) = REGISTERED(mine, rank)
        :: else -> ADMITTED(mine, rank) = GIVEN_UP
        fi
    }
}

proctype creator(byte me) {
    byte mine, other;
    {
        mine = arena_of(me);
        named[mine] = 1;
scan:   other = 1;
        do
        :: other > CREATORS -> break
        :: other <= CREATORS && other == mine -> other++
        :: other <= CREATORS && other != mine -> look_at(other); other++
        od;
        open_for_all();
        gather(); take_away(); admit(1); admit(2);
        goto ended;
withdraw:
        stage[mine] = WITHDRAWN;
        take_away();
ended:  skip
    } unless { !lives(me) };
    end_process()
}

proctype joiner(byte me; byte rank) {
    byte mine, other;
    {
        do
        :: late -> break
        :: atomic {
                if
                :: hint(1) -> mine = 1
#if CREATORS > 1
                :: hint(2) -> mine = 2
#endif
                fi
            };
            if
            :: !lives(made_by(mine)) -> remove_leftover(mine)
            :: else ->
                if
                :: atomic { lock[mine] == 0 -> lock[mine] = me + 1 }
                :: (stage[mine] != OPEN || !lives(made_by(mine))) -> goto next
                :: late -> break
                fi;
                if
                :: (stage[mine] != OPEN || !lives(made_by(mine))) -> unlock(mine); goto next
                :: else
                fi;
                if
                :: is_there(mine, rank) -> unlock(mine); break  /* 'is taken by process' */
                :: else
                fi;
                atomic { assert(stage[mine] != CLOSED && !is_there(mine, rank)); REGISTERED(mine, rank) = me };
                unlock(mine);
                if
                :: ADMITTED(mine, rank) == me -> joined[me] = mine; break
                :: is_over(mine) ->
                    /* rank 0 may have let this rank in, and ended well */
                    if :: ADMITTED(mine, rank) == me -> joined[me] = mine; break :: else fi
                :: late -> REGISTERED(mine, rank) = GIVEN_UP; break
                fi
            fi;
next:       mine = 0
        od
    } unless { !lives(me) };
    atomic { mine = 0; end_process() }
}

inline kill(victim) {
    kills++;
    alive = alive & ~bit_of(victim);
    lock[1] = (lock[1] == victim + 1 -> 0 : lock[1]);
    lock[2] = (lock[2] == victim + 1 -> 0 : lock[2]);
    lock[3] = (lock[3] == victim + 1 -> 0 : lock[3])
}

active proctype killer() {
end:
    do
#if KILLS > 0
    :: atomic { kills < KILLS && lives(0) -> kill(0) }
#if JOINERS > 0
    :: atomic { kills < KILLS && lives(1) -> kill(1) }
    :: atomic { kills < KILLS && lives(2) -> kill(2) }
#endif
#if CREATORS > 1
    :: atomic { kills < KILLS && lives(3) -> kill(3) }
#endif
#if CREATORS > 2
    :: atomic { kills < KILLS && lives(4) -> kill(4) }
#endif
#if JOINERS > 2
    :: atomic { kills < KILLS && lives(5) -> kill(5) }
#endif
#endif
    :: break
    od
}

/* Patience ends at any time, or only when nothing else can happen: then somebody must be missing. */
active proctype clock() {
    creators > 0;
    if
    :: !patient
    :: patient -> atomic { timeout -> assert(kills > 0 || creators > 1 || JOINERS > 2 || running == 0) }
    fi;
    late = 1
}

inline remove_for_next(arena) { named[arena] = named[arena] && lives(made_by(arena)) }

init {
    atomic {
        if :: patient = 1 :: true fi;
        creators = 1; alive = 1; running = 1;
        run creator(0);
#if CREATORS > 1
        if :: creators = 2; alive = alive | 8; running++; run creator(3) :: true fi;
#endif
#if CREATORS > 2
        if :: creators == 2 -> creators = 3; alive = alive | 16; running++; run creator(4) :: true fi;
#endif
#if JOINERS > 0
        alive = alive | 6; running = running + 2; run joiner(1, 1); run joiner(2, 2);
#endif
#if JOINERS > 2
        alive = alive | 32; running++; run joiner(5, 1)
#endif
    };
    running == 0;
    atomic {
        assert(kills > 0 || !(named[1] || named[2] || named[3]));
        assert(JOINERS == 3 || joined[1] == 0 || joined[2] == 0 || joined[1] == joined[2]);
        assert(JOINERS == 0 || !patient || kills > 0 || (joined[2] != 0 && (joined[1] == joined[2] || joined[5] == joined[2])));
        remove_for_next(1); remove_for_next(2); remove_for_next(3);
        assert(!(named[1] || named[2] || named[3]))
    }
}
