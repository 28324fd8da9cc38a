// Slow paths of the checks: a shadow word said that an access may be communication.
//
// Rules of this file: general registers only (enforced by -mgeneral-regs-only), no calls out of it,
// no thread-local storage, no locks; any instruction may be interrupted by a signal or a kill, and
// what was counted up to there stays counted.
//
// A shadow word holds the last writer and who has read the block since:
//   bits 48..63  logical id of the last writer + 1; 0 = not written yet
//   bits 0..46   reader slots; a writer's own slot is set by its write
// Neighbours: `thread.rs` fills struct thread, `stubs.rs` calls the functions.
#include <stdint.h>

typedef uint64_t u64;

#define WRITER_SHIFT 48
#define READERS ((1ull << 47) - 1)
#define REP_READS_RSI 0x100
#define REP_WRITES_RDI 0x200
#define REP_SCANS 0x400
#define REP_COMPARES 0x800
#define REP_WHILE_DIFFERENT 0x1000
#define FLAG_DIRECTION 0x400

// Mirrors thread.rs.
struct thread {
    u64 *raw, *waw, *invalidation; // rows of this thread, indexed by logical id
    u64 id, mask, own_word;
};

// Mirrors stubs.rs.
struct frame {
    u64 r15, r14, r13, r12, r11, r10, r9, r8, rdi, rsi, rbp, rbx, rdx, rcx, rax, flags;
};

u64 tt_shadow;         // address of the word of block 0
u64 tt_block_shift;    // log2 of the block's bytes
uint32_t tt_slot_owner[64]; // logical id of the thread in each slot

static inline u64 *word_of(u64 address) {
    return (u64 *)(tt_shadow + ((address >> tt_block_shift) << 3));
}

void tt_slow_read(struct thread *t, u64 address) {
    u64 *word = word_of(address);
    u64 old = __atomic_load_n(word, __ATOMIC_RELAXED);
    do {
        if (old & t->mask)
            return;
    } while (!__atomic_compare_exchange_n(word, &old, old | t->mask, 0, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    u64 writer = old >> WRITER_SHIFT;
    if (writer && writer - 1 != t->id)
        t->raw[writer - 1]++;
}

void tt_slow_write(struct thread *t, u64 address) {
    u64 old = __atomic_exchange_n(word_of(address), t->own_word, __ATOMIC_RELAXED);
    u64 writer = old >> WRITER_SHIFT;
    if (writer && writer - 1 != t->id)
        t->waw[writer - 1]++;
    for (u64 readers = old & READERS & ~t->mask; readers; readers &= readers - 1) {
        u64 reader = tt_slot_owner[__builtin_ctzll(readers)];
        if (reader != writer - 1)
            t->invalidation[reader]++;
    }
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
        if (!(*word_of(a) & t->mask))
            tt_slow_read(t, a);
}

static void write_range(struct thread *t, u64 start, u64 bytes) {
    u64 block = 1ull << tt_block_shift;
    if (!bytes)
        return;
    for (u64 a = start & ~(block - 1); a <= start + bytes - 1; a += block)
        if (*word_of(a) != t->own_word)
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

// A system call read or wrote user memory on behalf of the thread.
void tt_range(struct thread *t, u64 start, u64 bytes, int writes) {
    if (writes)
        write_range(t, start, bytes);
    else
        read_range(t, start, bytes);
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
