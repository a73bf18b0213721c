/* The life of an arena that ranks meet under a name: a model of `startup/rendezvous.py`, of `create`, `open_named` and `unlink`
 * (engine/memory/arena.py), and of the kernel: who holds what, and what a kill releases.
 *
 *     here                there
 *     name                the entry in /dev/shm: 0, or the object that it means
 *     made_by(object)     JOB_CREATOR and JOB_CREATOR_START in the job page of an object
 *     registered[object]  record of each rank by itself: JOINED, a bit a rank
 *     admitted[object]    record of each rank by the launcher (here rank 0): JOINED, a bit a rank
 *     lock[object]        who holds flock(2) on it: 0, or 1 + process
 *     alive               a bit a process: what `process_start` tells
 *     late                that SHMCOLL_JOIN_TIMEOUT has passed
 *
 * Processes 0, 1, 2 are the ranks; process 3 is rank 0 started again, process 4 the next job that meets so. The object
 * of process 0 is 1, that of process 3 is 2. One statement is one system call or one operation on a shared word. An
 * object gets its name when it is finished (`_publish`); before that it has none, and a kill leaves nothing.
 * The doorbells are left out: slices of 20 ms stand for them. Two processes of one rank: tests/rendezvous.
 *
 * Claims, for up to KILLS kills at any step, with or without a second rank 0: nobody takes away the name of a creator
 * that lives; nobody is let in while the name exists, or before all have come; where nobody was killed, all get in; a
 * name stays only when its creator was killed, and the next job removes it; every process ends.
 */

#ifndef KILLS
#define KILLS 1
#endif
#define FIRST  0
#define SECOND 3
#define NEXT   4
#define made_by(object) ((object) == 1 -> FIRST : SECOND)
#define lives(process)  (alive >> (process) & 1)
#define bit_of(rank)    (1 << (rank))

byte name;
byte registered[3];
byte admitted[3];
byte lock[3];
byte alive = 7;
bit late;
byte kills;
bit again;  /* whether rank 0 is started a second time */
byte running = 4;
bit patient;  /* whether only what can never come is given up */

inline end_process() { atomic { alive = alive & ~bit_of(me); running--; object = 0; found = 0 } }

inline take_lock() { atomic { lock[found] == 0 -> lock[found] = me + 1 } }

inline drop_lock() { lock[found] = 0 }

inline remove() { atomic { assert(name == 0 || !lives(made_by(name))); name = 0 } }

inline remove_leftover() {
    found = name;
    if
    :: found == 0
    :: else ->
        take_lock();
        if
        :: name == found ->
            if
            :: !lives(made_by(found)) -> remove()
            :: else
            fi
        :: else
        fi;
        drop_lock();
        found = 0
    fi
}

inline gather() {
    do
    :: late -> take_away(); goto ended
    :: (registered[object] == 6 && lives(1) && lives(2)) ->
        if
        :: lives(1) -> if :: lives(2) -> break :: else fi
        :: else
        fi
    od
}

inline take_away() { atomic { assert(name == 0 || made_by(name) == me); name = 0 } }

inline admit(rank) {
    atomic {
        assert(name != object && registered[object] == 6);
        admitted[object] = admitted[object] | bit_of(rank)
    }
}

proctype creator(byte me) {
    byte object, found;
    {
        remove_leftover();
        object = (me == FIRST -> 1 : 2);
        if
        :: atomic { name == 0 -> name = object }
        :: name != 0 -> goto ended  /* 'is running already' */
        fi;
        gather(); take_away(); admit(1); admit(2);
ended:  skip
    } unless { !lives(me) };
    end_process()
}

proctype joiner(byte me) {
    byte object, found;
    {
        do
        :: late -> break
        :: atomic { name != 0 -> object = name };
            if
            :: !lives(made_by(object)) -> remove_leftover()
            :: else ->
                found = object;
                take_lock();
                registered[object] = registered[object] | bit_of(me);
                drop_lock();
                if
                :: admitted[object] & bit_of(me) -> assert(name != object); break
                :: !lives(made_by(object)) ->
                    if :: admitted[object] & bit_of(me) -> break :: else fi  /* it may have let us in, and ended well */
                :: late -> break
                fi
            fi
        od
    } unless { !lives(me) };
    end_process()
}

inline kill(victim) {
    kills++;
    alive = alive & ~bit_of(victim);
    if :: lock[1] == victim + 1 -> lock[1] = 0 :: else fi;
    if :: lock[2] == victim + 1 -> lock[2] = 0 :: else fi
}

active proctype killer() {
end:
    do
    :: atomic { kills < KILLS && lives(0) -> kill(0) }
    :: atomic { kills < KILLS && lives(1) -> kill(1) }
    :: atomic { kills < KILLS && lives(2) -> kill(2) }
    :: atomic { kills < KILLS && lives(3) -> kill(3) }
    :: break
    od
}

/* Patience ends at any time, or only when nothing else can happen: then somebody must be missing. */
active proctype clock() {
    if
    :: !patient
    :: patient -> atomic { timeout -> assert(kills > 0 || again || running == 0) }
    fi;
    late = 1
}

init {
    byte me = NEXT, found;
    atomic {
        if :: patient = 1 :: true fi;
        if
        :: again = 1; alive = 15; run creator(SECOND)
        :: running = 3
        fi;
        run creator(FIRST); run joiner(1); run joiner(2)
    };
    running == 0;
    assert(name == 0 || kills > 0);
    remove_leftover();
    assert(name == 0)
}
