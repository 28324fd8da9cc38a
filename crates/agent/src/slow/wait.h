// Locks of blocks, and waiting for other threads without a C library.
//
// A waiter may keep the holder from running: a real-time thread that spins never gives its
// processor to a thread of lower priority. So waiting goes in three steps. It spins for a moment,
// then offers the processor to others (sched_yield), and then sleeps, lending its priority to the
// holder meanwhile (priority inheritance): otherwise a third thread, with a priority between the
// two, could keep the holder from running for ever.
//
// A block's lock is a bit of another word, so the kernel cannot tell which thread holds it. Instead
// each thread has a futex, `running`, which names it as the owner, and says in `holds` which lock
// it has. A waiter looks for the holder and then waits for its futex (FUTEX_LOCK_PI2): the kernel
// runs the holder with the waiter's priority until it releases the futex. The holder does that only
// if it sees, as it leaves, that a thread waits. It uses no atomic instruction for that, which
// would wait for all its writes to arrive. Instead the waiter has the kernel see to the order
// (membarrier).
//
// Neighbours: `filter.rs` says which calls are forbidden, `thread.rs` fills `running`; `lock.rs`
// has the locks of the Rust part, whose word is a futex itself.
#ifndef TT_WAIT_H
#define TT_WAIT_H
#include "grants.h"

// Kept out of what runs often.
#define COLD __attribute__((noinline, cold))

#define SPINS_PER_YIELD 64
#define YIELDS 16

static inline long call4(long number, u64 a, u64 b, u64 c, u64 d) {
    long result;
    register u64 r10 __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
}

// One of NO_….
static inline int is_forbidden(unsigned what) {
    return __atomic_load_n(&tt_forbidden, __ATOMIC_RELAXED) & what;
}

struct time {
    int64_t seconds, ns;
};

enum { CALL_YIELD = 24, CALL_FUTEX = 202, CALL_CLOCK_GETTIME = 228, CALL_MEMBARRIER = 324 };
enum { FUTEX_WAIT_PRIVATE = 128, FUTEX_UNLOCK_PI_PRIVATE = 135, FUTEX_LOCK_PI2_PRIVATE = 141 };
#define FUTEX_WAITERS 0x80000000u

// Sleeps for `ns` nanoseconds, less than a second.
static inline void sleep_ns(int64_t ns) {
    static const u32 nobody_wakes = 0;
    struct time time = {0, ns};
    call4(CALL_FUTEX, (u64)&nobody_wakes, FUTEX_WAIT_PRIVATE, 0, (u64)&time);
}

// The thread that holds the lock or is about to take it; 0 = not found.
static inline struct thread *holder_of(const struct thread *t, const void *lock) {
    for (u64 bank = 0; bank < tt_banks; bank++)
        for (unsigned slot = 0; slot < SLOT_PLACES; slot++) {
            u64 map = __atomic_load_n(&tt_grants[bank][slot], __ATOMIC_RELAXED);
            if (!map)
                continue;
            struct thread *other = *(struct thread *const *)(map - THREAD_PAGE_BYTES + CONTROL_THREAD);
            if (other && other != t && __atomic_load_n(&other->holds, __ATOMIC_RELAXED) == lock)
                return other;
        }
    return 0;
}

// Every other thread has executed what comes before some point of its code, and nothing behind it;
// whether the kernel can see to that.
static inline int order_others(void) {
    enum { PRIVATE_EXPEDITED = 8, REGISTER_PRIVATE_EXPEDITED = 16 };
    return !call4(CALL_MEMBARRIER, PRIVATE_EXPEDITED, 0, 0, 0) ||
           (!call4(CALL_MEMBARRIER, REGISTER_PRIVATE_EXPEDITED, 0, 0, 0) &&
            !call4(CALL_MEMBARRIER, PRIVATE_EXPEDITED, 0, 0, 0));
}

// Tells the holder of the lock that a thread waits. Returns whether the holder will see that when
// it leaves.
static inline int announce(struct thread *holder, const void *lock) {
    u32 running = __atomic_load_n(&holder->running, __ATOMIC_RELAXED);
    if ((running & ~FUTEX_WAITERS) != holder->tid ||
        !__atomic_compare_exchange_n(&holder->running, &running, running | FUTEX_WAITERS, 0, __ATOMIC_SEQ_CST,
                                     __ATOMIC_RELAXED))
        return 0;
    return order_others() && __atomic_load_n(&holder->holds, __ATOMIC_RELAXED) == lock;
}

// Sleeps until the holder of the lock has left its section; meanwhile it runs with at least the
// calling thread's priority. Not for long: a child of vfork has its parent's record, and the kernel
// does not know it by that.
COLD static int lend_priority(struct thread *holder, const void *lock) {
    enum { MONOTONIC = 1, SECOND = 1000000000, PATIENCE_NS = 1000000 };
    const long TIMED_OUT = -110;
    struct time end;
    if (!holder || !announce(holder, lock) || call4(CALL_CLOCK_GETTIME, MONOTONIC, (u64)&end, 0, 0))
        return 0;
    end.ns += PATIENCE_NS;
    if (end.ns >= SECOND) {
        end.seconds++;
        end.ns -= SECOND;
    }
    long result = call4(CALL_FUTEX, (u64)&holder->running, FUTEX_LOCK_PI2_PRIVATE, 0, (u64)&end);
    if (!result)
        call4(CALL_FUTEX, (u64)&holder->running, FUTEX_UNLOCK_PI_PRIVATE, 0, 0);
    return !result || result == TIMED_OUT;
}

// Called again and again, with 1, 2, 3 … `spins`, while another thread holds a lock. With `holder`
// 0 it is sought.
COLD static void wait_for(struct thread *t, const void *lock, struct thread *holder, unsigned spins) {
    enum { MOMENT_NS = 20000 };
    __asm__ volatile("pause");
    if (spins % SPINS_PER_YIELD)
        return;
    if (spins / SPINS_PER_YIELD < YIELDS || is_forbidden(NO_FUTEX)) {
        if (!is_forbidden(NO_YIELD))
            call4(CALL_YIELD, 0, 0, 0, 0);
        return;
    }
    int takes = t->holds == lock;
    if (takes) // it only waits, so it must not be found as the holder
        __atomic_store_n(&t->holds, 0, __ATOMIC_RELAXED);
    if (!lend_priority(holder ? holder : holder_of(t, lock), lock))
        sleep_ns(MOMENT_NS);
    if (takes)
        __atomic_store_n(&t->holds, lock, __ATOMIC_RELAXED);
}

// Before a lock is taken: a waiter must find its holder at any time. After others have waited, the
// futex has no owner, or for a moment is still theirs. It does no harm that they do not get it
// back.
static inline void enter(struct thread *t, const void *lock) {
    u32 running = __atomic_load_n(&t->running, __ATOMIC_RELAXED);
    if ((running & ~FUTEX_WAITERS) != t->tid)
        __atomic_store_n(&t->running, t->tid, __ATOMIC_RELAXED);
    __atomic_store_n(&t->holds, lock, __ATOMIC_RELAXED);
}

COLD static void wake_waiters(struct thread *t) {
    if (is_forbidden(NO_FUTEX) || call4(CALL_FUTEX, (u64)&t->running, FUTEX_UNLOCK_PI_PRIVATE, 0, 0))
        __atomic_store_n(&t->running, 0, __ATOMIC_RELAXED);
}

// After it has been released.
static inline void leave(struct thread *t) {
    __atomic_store_n(&t->holds, 0, __ATOMIC_RELAXED);
    if (__builtin_expect(__atomic_load_n(&t->running, __ATOMIC_RELAXED) != t->tid, 0))
        wake_waiters(t);
}

static u32 *lock_block(struct thread *t, u64 address) {
    // Neighbouring blocks have locks in different lines.
    u64 hash = (address >> tt_block_shift) * 0x9e3779b97f4a7c15ull;
    u32 *lock = tt_mode == DETAIL ? last_site(address) : &tt_block_locks[hash >> (64 - LOCK_BITS)];
    enter(t, lock);
    for (unsigned spins = 1;; spins++) {
        u8 was_locked;
        __asm__ volatile("lock btsl %2, %0" : "+m"(*lock), "=@ccc"(was_locked) : "i"(LOCKED_BIT) : "memory");
        if (!was_locked)
            return lock;
        while (__atomic_load_n(lock, __ATOMIC_RELAXED) & LOCKED)
            wait_for(t, lock, 0, spins++);
    }
}

// What else is in the word stays: only the lock's holder changes its upper part.
static void unlock_block(struct thread *t, u32 *lock) {
    u8 *top = (u8 *)lock + LOCKED_BIT / 8;
    __atomic_store_n(top, (u8)(*top & ~(LOCKED >> LOCKED_BIT)), __ATOMIC_RELEASE);
    leave(t);
}

#ifndef MODE
// In the child of a fork, which has one thread. The sites there are new.
void tt_release_locks(void) {
    for (unsigned k = 0; k < LOCKS && tt_mode != DETAIL; k++)
        tt_block_locks[k] = 0;
}
#endif

#endif
