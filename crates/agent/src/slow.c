// Slow paths of the checks: a shadow word said that an access may be communication.
//
// Rules of this file: general registers only (enforced by -mgeneral-regs-only), no calls out of it,
// no thread-local storage, no locks; any instruction may be interrupted by a signal or a kill, and
// what was counted up to there stays counted.
//
// A shadow word holds the last writer and who has read the block since:
//   bits 48..63  logical id of the last writer + 1; 0 = not written yet
//   bit  47      threads of other banks have read (only in the last writer's bank)
//   bits 0..46   reader slots; a writer's own slot is set by its write
//
// 47 threads share a bank, a flat array of words. While one bank suffices, a word changes by
// compare-and-swap. With more banks every block has a word in each: the writer stands in all of them,
// readers only in their own, and slow paths take the block's lock; fast paths never do. The writer in
// bank 0 is the true one: other banks may be younger than the write.
// Neighbours: `thread.rs` fills struct thread, `shadow.rs` maps banks, `stubs.rs` calls the functions.
#include <stdint.h>

typedef uint64_t u64;

#define WRITER_SHIFT 48
#define FOREIGN (1ull << 47)
#define READERS (FOREIGN - 1)
#define MAX_BANKS 8
#define LOCKS 4096
#define REP_READS_RSI 0x100
#define REP_WRITES_RDI 0x200
#define REP_SCANS 0x400
#define REP_COMPARES 0x800
#define REP_WHILE_DIFFERENT 0x1000
#define FLAG_DIRECTION 0x400

// Mirrors thread.rs.
struct thread {
    u64 *raw, *waw, *invalidation; // rows of this thread, indexed by logical id
    u64 id, mask, own_word, bank;
};

// Mirrors stubs.rs.
struct frame {
    u64 r15, r14, r13, r12, r11, r10, r9, r8, rdi, rsi, rbp, rbx, rdx, rcx, rax, flags;
};

u64 tt_shadow[MAX_BANKS];                // address of the word of block 0 in each bank
u64 tt_banks;                            // banks in use
u64 tt_block_shift;                      // log2 of the block's bytes
uint32_t tt_slot_owner[MAX_BANKS][64];   // logical id of the thread in each slot
uint8_t tt_bank_of[1 << 16];             // bank of each logical id
static uint8_t locks[LOCKS];

static inline u64 *word_in(u64 bank, u64 address) {
    return (u64 *)(tt_shadow[bank] + ((address >> tt_block_shift) << 3));
}

static inline u64 *word_of(const struct thread *t, u64 address) {
    return word_in(t->bank, address);
}

static uint8_t *lock_block(u64 address) {
    uint8_t *lock = &locks[(address >> tt_block_shift) % LOCKS];
    for (unsigned spins = 1; __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE); spins++) {
        __asm__ volatile("pause");
        if (spins % 64 == 0) { // sched_yield
            u64 result = 24;
            __asm__ volatile("syscall" : "+a"(result) : : "rcx", "r11", "memory");
        }
    }
    return lock;
}

static void unlock_block(uint8_t *lock) { __atomic_store_n(lock, 0, __ATOMIC_RELEASE); }

// In the child of a fork, which has one thread.
void tt_release_locks(void) {
    for (unsigned k = 0; k < LOCKS; k++)
        locks[k] = 0;
}

static void count_raw(struct thread *t, u64 word) {
    u64 writer = word >> WRITER_SHIFT;
    if (writer && writer - 1 != t->id)
        t->raw[writer - 1]++;
}

static void count_invalidations(struct thread *t, u64 bank, u64 word, u64 writer) {
    u64 others = word & READERS & ~(bank == t->bank ? t->mask : 0);
    for (; others; others &= others - 1) {
        u64 reader = tt_slot_owner[bank][__builtin_ctzll(others)];
        if (reader != writer - 1)
            t->invalidation[reader]++;
    }
}

static void read_in_banks(struct thread *t, u64 address) {
    uint8_t *lock = lock_block(address);
    u64 *own = word_of(t, address);
    if (!(*own & t->mask)) {
        u64 truth = *word_in(0, address);
        u64 writer = truth >> WRITER_SHIFT;
        __atomic_store_n(own, (truth & ~(FOREIGN | READERS)) | (*own & (FOREIGN | READERS)) | t->mask,
                         __ATOMIC_RELAXED);
        if (writer && tt_bank_of[writer - 1] != t->bank) {
            u64 *writers = word_in(tt_bank_of[writer - 1], address);
            __atomic_store_n(writers, *writers | FOREIGN, __ATOMIC_RELAXED);
        }
        count_raw(t, truth);
    }
    unlock_block(lock);
}

static void write_in_banks(struct thread *t, u64 address) {
    uint8_t *lock = lock_block(address);
    u64 writer = *word_in(0, address) >> WRITER_SHIFT;
    if (writer && writer - 1 != t->id)
        t->waw[writer - 1]++;
    for (u64 bank = 0; bank < tt_banks; bank++) {
        u64 *word = word_in(bank, address);
        count_invalidations(t, bank, *word, writer);
        u64 mine = bank == t->bank ? t->own_word : t->own_word & ~(FOREIGN | READERS);
        __atomic_store_n(word, mine, __ATOMIC_RELAXED);
    }
    unlock_block(lock);
}

void tt_slow_read(struct thread *t, u64 address) {
    if (tt_banks > 1) {
        read_in_banks(t, address);
        return;
    }
    u64 *word = word_of(t, address);
    u64 old = __atomic_load_n(word, __ATOMIC_RELAXED);
    do {
        if (old & t->mask)
            return;
    } while (!__atomic_compare_exchange_n(word, &old, old | t->mask, 0, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    count_raw(t, old);
}

void tt_slow_write(struct thread *t, u64 address) {
    if (tt_banks > 1) {
        write_in_banks(t, address);
        return;
    }
    u64 old = __atomic_exchange_n(word_of(t, address), t->own_word, __ATOMIC_RELAXED);
    u64 writer = old >> WRITER_SHIFT;
    if (writer && writer - 1 != t->id)
        t->waw[writer - 1]++;
    count_invalidations(t, t->bank, old, writer);
}

void tt_slow_read_write(struct thread *t, u64 address) {
    tt_slow_read(t, address);
    tt_slow_write(t, address);
}

static void read_range(struct thread *t, u64 start, u64 bytes) {
    u64 block = 1ull << tt_block_shift;
    if (!bytes)
        return;
    for (u64 a = start & ~(block - 1); a <= start + bytes - 1; a += block)
        if (!(*word_of(t, a) & t->mask))
            tt_slow_read(t, a);
}

static void write_range(struct thread *t, u64 start, u64 bytes) {
    u64 block = 1ull << tt_block_shift;
    if (!bytes)
        return;
    for (u64 a = start & ~(block - 1); a <= start + bytes - 1; a += block)
        if (*word_of(t, a) != t->own_word)
            tt_slow_write(t, a);
}

static u64 element_at(u64 address, u64 size) {
    switch (size) {
    case 1: return *(uint8_t *)address;
    case 2: return *(uint16_t *)address;
    case 4: return *(uint32_t *)address;
    default: return *(u64 *)address;
    }
}

// Elements that a scas or cmps will look at. Reads what the instruction is about to read.
static u64 scanned(u64 descriptor, u64 size, const struct frame *f, long step) {
    u64 wanted = f->rax & (size == 8 ? ~0ull : (1ull << 8 * size) - 1);
    u64 left = f->rdi, right = f->rsi, done = 0;
    while (done < f->rcx) {
        u64 a = element_at(left, size);
        u64 b = descriptor & REP_COMPARES ? element_at(right, size) : wanted;
        done++;
        if ((a == b) == !!(descriptor & REP_WHILE_DIFFERENT))
            break;
        left += step;
        right += step;
    }
    return done;
}

// A repeated string instruction is about to run with the registers in f.
void tt_slow_repeat(struct thread *t, u64 descriptor, const struct frame *f) {
    u64 size = descriptor & 0xff;
    long step = f->flags & FLAG_DIRECTION ? -(long)size : (long)size;
    u64 count = descriptor & REP_SCANS ? scanned(descriptor, size, f, step) : f->rcx;
    if (!count)
        return;
    u64 bytes = count * size;
    u64 back = step < 0 ? bytes - size : 0; // lowest address when running downwards
    if (descriptor & (REP_READS_RSI | REP_COMPARES))
        read_range(t, f->rsi - back, bytes);
    if (descriptor & REP_SCANS)
        read_range(t, f->rdi - back, bytes);
    if (descriptor & REP_WRITES_RDI)
        write_range(t, f->rdi - back, bytes);
}

struct vector {
    u64 base, bytes;
};

static void range(struct thread *t, u64 start, u64 bytes, int writes) {
    if (writes)
        write_range(t, start, bytes);
    else
        read_range(t, start, bytes);
}

// The first `moved` bytes of the buffers of a vector, and the vector itself.
static void vectors(struct thread *t, u64 address, u64 count, u64 moved, int writes) {
    const struct vector *v = (const struct vector *)address;
    read_range(t, address, count * sizeof *v);
    for (u64 k = 0; k < count && moved; k++) {
        u64 part = v[k].bytes < moved ? v[k].bytes : moved;
        range(t, v[k].base, part, writes);
        moved -= part;
    }
}

// The kernel has read or written the program's memory on behalf of the thread: numbers as in
// syscalls/mod.rs, rax = result, arguments in rdi, rsi, rdx, r10.
void tt_after_syscall(struct thread *t, u64 number, const struct frame *f) {
    enum { STAT_BYTES = 144, EPOLL_EVENT_BYTES = 12, MSG_VECTOR = 16, MSG_COUNT = 24 };
    int64_t result = (int64_t)f->rax;
    if (result < 0)
        return;
    u64 moved = (u64)result;
    switch (number) {
    case 0: case 17: case 45: case 217: // read, pread64, recvfrom, getdents64
        write_range(t, f->rsi, moved);
        break;
    case 1: case 18: case 44: // write, pwrite64, sendto
        read_range(t, f->rsi, moved);
        break;
    case 4: case 5: case 6: // stat, fstat, lstat
        write_range(t, f->rsi, STAT_BYTES);
        break;
    case 262: // newfstatat
        write_range(t, f->rdx, STAT_BYTES);
        break;
    case 19: case 295: // readv, preadv
        vectors(t, f->rsi, f->rdx, moved, 1);
        break;
    case 20: case 296: // writev, pwritev
        vectors(t, f->rsi, f->rdx, moved, 0);
        break;
    case 46: // sendmsg
        vectors(t, *(u64 *)(f->rsi + MSG_VECTOR), *(u64 *)(f->rsi + MSG_COUNT), moved, 0);
        break;
    case 47: // recvmsg
        vectors(t, *(u64 *)(f->rsi + MSG_VECTOR), *(u64 *)(f->rsi + MSG_COUNT), moved, 1);
        break;
    case 202: // futex
        read_range(t, f->rdi, 4);
        break;
    case 232: case 281: // epoll_wait, epoll_pwait
        write_range(t, f->rsi, moved * EPOLL_EVENT_BYTES);
        break;
    case 318: // getrandom
        write_range(t, f->rdi, moved);
        break;
    }
}

// The compiler may turn loops into these.
void *memcpy(void *to, const void *from, unsigned long n) {
    void *start = to;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
    return start;
}

void *memmove(void *to, const void *from, unsigned long n) {
    char *d = to;
    const char *s = from;
    if (d <= s || d >= s + n)
        return memcpy(to, from, n);
    while (n--)
        d[n] = s[n];
    return to;
}

void *memset(void *to, int value, unsigned long n) {
    void *start = to;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(value) : "memory");
    return start;
}

int memcmp(const void *a, const void *b, unsigned long n) {
    const unsigned char *x = a, *y = b;
    for (unsigned long k = 0; k < n; k++)
        if (x[k] != y[k])
            return x[k] - y[k];
    return 0;
}

int bcmp(const void *a, const void *b, unsigned long n) { return memcmp(a, b, n); }

unsigned long strlen(const char *s) {
    unsigned long n = 0;
    while (s[n])
        n++;
    return n;
}
