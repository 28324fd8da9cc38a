// Memory that the kernel reads and writes on behalf of the calling thread.
//
// One line per system call: which arguments point to memory, in which direction, and how long it
// is. Lengths are those that the kernel really moved. Counted when the call has returned, reads
// first, and only if it has succeeded (a path also if it is not there), and of pointers that are
// not null. What fits no line has a function of its own, as futex has.
//
// Not counted: what the kernel moves later (io_submit, io_uring), and calls that are not listed.
//
// Source: the Linux man pages, section 2, and arch/x86/entry/syscalls/syscall_64.tbl for the
// numbers.
#ifndef TT_SYSTEM_CALLS_H
#define TT_SYSTEM_CALLS_H
#include "access.h"
#include "program.h"
#include "registers.h"
#include "remote.h"

#define MOVES 4
#define MAX_PATH 4096
#define MAX_ARGUMENT (1u << 20) // bytes, or descriptors
enum { IN = 1, OUT = 2 };

// How long the memory is. `n` is a number of bytes unless said otherwise.
enum length {
    NO_MOVE,
    BYTES,       // n
    RESULT,      // n for each unit of the call's result
    ARGUMENT,    // the value of argument n
    EACH,        // n says for each unit of which argument how many, see PER
    UP_TO,       // for each unit of the result, but at most for so many as the argument says
    AT_ARGUMENT, // the u32 that argument n points to
    PATH,        // a string
    VECTOR,      // the buffers of an iovec of argument n entries, as far as the result goes
    MESSAGE,     // a struct msghdr and its buffers
    MESSAGES,    // as many struct mmsghdr as the result says
    FD_SET,      // a bit for each descriptor below argument n
};

struct move {
    u8 way, argument, length;
    u16 n;
};

// One line for each call.
// clang-format off
#define MOVE(way, argument, length, n) {way, argument, length, n}
#define PER(argument, bytes) ((argument) | (bytes) << 3)
#define ONE_PATH {MOVE(IN, 0, PATH, 0)}
#define AT_PATH {MOVE(IN, 1, PATH, 0)}
#define TWO_PATHS {MOVE(IN, 0, PATH, 0), MOVE(IN, 1, PATH, 0)}
#define ADDRESS_OUT(a) MOVE(OUT, a, AT_ARGUMENT, a + 1), MOVE(IN | OUT, a + 1, BYTES, 4)

static const struct move moves[SYSTEM_CALLS][MOVES] = {
    [0] = {MOVE(OUT, 1, RESULT, 1)},                              // read
    [1] = {MOVE(IN, 1, RESULT, 1)},                               // write
    [2] = ONE_PATH,                                               // open
    [4] = {MOVE(IN, 0, PATH, 0), MOVE(OUT, 1, BYTES, 144)},       // stat
    [5] = {MOVE(OUT, 1, BYTES, 144)},                             // fstat
    [6] = {MOVE(IN, 0, PATH, 0), MOVE(OUT, 1, BYTES, 144)},       // lstat
    [7] = {MOVE(IN | OUT, 0, EACH, PER(1, 8))},                   // poll
    [13] = {MOVE(IN, 1, BYTES, 32), MOVE(OUT, 2, BYTES, 32)},     // rt_sigaction
    [14] = {MOVE(IN, 1, BYTES, 8), MOVE(OUT, 2, BYTES, 8)},       // rt_sigprocmask
    [17] = {MOVE(OUT, 1, RESULT, 1)},                             // pread64
    [18] = {MOVE(IN, 1, RESULT, 1)},                              // pwrite64
    [19] = {MOVE(OUT, 1, VECTOR, 2)},                             // readv
    [20] = {MOVE(IN, 1, VECTOR, 2)},                              // writev
    [21] = ONE_PATH,                                              // access
    [22] = {MOVE(OUT, 0, BYTES, 8)},                              // pipe
    [23] = {MOVE(IN | OUT, 1, FD_SET, 0), MOVE(IN | OUT, 2, FD_SET, 0),
            MOVE(IN | OUT, 3, FD_SET, 0), MOVE(IN | OUT, 4, BYTES, 16)}, // select
    [35] = {MOVE(IN, 0, BYTES, 16)},                              // nanosleep
    [36] = {MOVE(OUT, 1, BYTES, 32)},                             // getitimer
    [38] = {MOVE(IN, 1, BYTES, 32), MOVE(OUT, 2, BYTES, 32)},     // setitimer
    [40] = {MOVE(IN | OUT, 2, BYTES, 8)},                         // sendfile
    [42] = {MOVE(IN, 1, ARGUMENT, 2)},                            // connect
    [43] = {ADDRESS_OUT(1)},                                      // accept
    [44] = {MOVE(IN, 1, RESULT, 1), MOVE(IN, 4, ARGUMENT, 5)},    // sendto
    [45] = {MOVE(OUT, 1, RESULT, 1), ADDRESS_OUT(4)},             // recvfrom
    [46] = {MOVE(IN, 1, MESSAGE, 0)},                             // sendmsg
    [47] = {MOVE(OUT, 1, MESSAGE, 0)},                            // recvmsg
    [49] = {MOVE(IN, 1, ARGUMENT, 2)},                            // bind
    [51] = {ADDRESS_OUT(1)},                                      // getsockname
    [52] = {ADDRESS_OUT(1)},                                      // getpeername
    [53] = {MOVE(OUT, 3, BYTES, 8)},                              // socketpair
    [54] = {MOVE(IN, 3, ARGUMENT, 4)},                            // setsockopt
    [55] = {ADDRESS_OUT(3)},                                      // getsockopt
    [61] = {MOVE(OUT, 1, BYTES, 4), MOVE(OUT, 3, BYTES, 144)},    // wait4
    [63] = {MOVE(OUT, 0, BYTES, 390)},                            // uname
    [65] = {MOVE(IN, 1, EACH, PER(2, 6))},                        // semop
    [69] = {MOVE(IN, 1, ARGUMENT, 2)},                            // msgsnd
    [70] = {MOVE(OUT, 1, RESULT, 1)},                             // msgrcv
    [76] = ONE_PATH,                                              // truncate
    [78] = {MOVE(OUT, 1, RESULT, 1)},                             // getdents
    [79] = {MOVE(OUT, 0, RESULT, 1)},                             // getcwd
    [80] = ONE_PATH,                                              // chdir
    [82] = TWO_PATHS,                                             // rename
    [83] = ONE_PATH,                                              // mkdir
    [84] = ONE_PATH,                                              // rmdir
    [85] = ONE_PATH,                                              // creat
    [86] = TWO_PATHS,                                             // link
    [87] = ONE_PATH,                                              // unlink
    [88] = TWO_PATHS,                                             // symlink
    [89] = {MOVE(IN, 0, PATH, 0), MOVE(OUT, 1, RESULT, 1)},       // readlink
    [90] = ONE_PATH,                                              // chmod
    [92] = ONE_PATH,                                              // chown
    [94] = ONE_PATH,                                              // lchown
    [96] = {MOVE(OUT, 0, BYTES, 16), MOVE(OUT, 1, BYTES, 8)},     // gettimeofday
    [97] = {MOVE(OUT, 1, BYTES, 16)},                             // getrlimit
    [98] = {MOVE(OUT, 1, BYTES, 144)},                            // getrusage
    [99] = {MOVE(OUT, 0, BYTES, 112)},                            // sysinfo
    [100] = {MOVE(OUT, 0, BYTES, 32)},                            // times
    [115] = {MOVE(OUT, 1, UP_TO, PER(0, 4))},                     // getgroups
    [116] = {MOVE(IN, 1, EACH, PER(0, 4))},                       // setgroups
    [118] = {MOVE(OUT, 0, BYTES, 4), MOVE(OUT, 1, BYTES, 4), MOVE(OUT, 2, BYTES, 4)}, // getresuid
    [120] = {MOVE(OUT, 0, BYTES, 4), MOVE(OUT, 1, BYTES, 4), MOVE(OUT, 2, BYTES, 4)}, // getresgid
    [125] = {MOVE(IN, 0, BYTES, 8), MOVE(OUT, 1, BYTES, 24)},     // capget
    [126] = {MOVE(IN, 0, BYTES, 8), MOVE(IN, 1, BYTES, 24)},      // capset
    [127] = {MOVE(OUT, 0, ARGUMENT, 1)},                          // rt_sigpending
    [128] = {MOVE(IN, 0, BYTES, 8), MOVE(IN, 2, BYTES, 16), MOVE(OUT, 1, BYTES, 128)}, // rt_sigtimedwait
    [130] = {MOVE(IN, 0, BYTES, 8)},                              // rt_sigsuspend
    [131] = {MOVE(IN, 0, BYTES, 24), MOVE(OUT, 1, BYTES, 24)},    // sigaltstack
    [132] = {MOVE(IN, 0, PATH, 0), MOVE(IN, 1, BYTES, 16)},       // utime
    [133] = ONE_PATH,                                             // mknod
    [137] = {MOVE(IN, 0, PATH, 0), MOVE(OUT, 1, BYTES, 120)},     // statfs
    [138] = {MOVE(OUT, 1, BYTES, 120)},                           // fstatfs
    [142] = {MOVE(IN, 1, BYTES, 4)},                              // sched_setparam
    [143] = {MOVE(OUT, 1, BYTES, 4)},                             // sched_getparam
    [144] = {MOVE(IN, 2, BYTES, 4)},                              // sched_setscheduler
    [148] = {MOVE(OUT, 1, BYTES, 16)},                            // sched_rr_get_interval
    [159] = {MOVE(IN | OUT, 0, BYTES, 208)},                      // adjtimex
    [160] = {MOVE(IN, 1, BYTES, 16)},                             // setrlimit
    [164] = {MOVE(IN, 0, BYTES, 16), MOVE(IN, 1, BYTES, 8)},      // settimeofday
    [188] = {MOVE(IN, 0, PATH, 0), MOVE(IN, 1, PATH, 0), MOVE(IN, 2, ARGUMENT, 3)}, // setxattr
    [189] = {MOVE(IN, 0, PATH, 0), MOVE(IN, 1, PATH, 0), MOVE(IN, 2, ARGUMENT, 3)}, // lsetxattr
    [190] = {MOVE(IN, 1, PATH, 0), MOVE(IN, 2, ARGUMENT, 3)},     // fsetxattr
    [191] = {MOVE(IN, 0, PATH, 0), MOVE(IN, 1, PATH, 0), MOVE(OUT, 2, UP_TO, PER(3, 1))}, // getxattr
    [192] = {MOVE(IN, 0, PATH, 0), MOVE(IN, 1, PATH, 0), MOVE(OUT, 2, UP_TO, PER(3, 1))}, // lgetxattr
    [193] = {MOVE(IN, 1, PATH, 0), MOVE(OUT, 2, UP_TO, PER(3, 1))}, // fgetxattr
    [194] = {MOVE(IN, 0, PATH, 0), MOVE(OUT, 1, UP_TO, PER(2, 1))}, // listxattr
    [195] = {MOVE(IN, 0, PATH, 0), MOVE(OUT, 1, UP_TO, PER(2, 1))}, // llistxattr
    [196] = {MOVE(OUT, 1, UP_TO, PER(2, 1))},                     // flistxattr
    [197] = TWO_PATHS,                                            // removexattr
    [198] = TWO_PATHS,                                            // lremovexattr
    [199] = AT_PATH,                                              // fremovexattr
    [201] = {MOVE(OUT, 0, BYTES, 8)},                             // time
    [203] = {MOVE(IN, 2, ARGUMENT, 1)},                           // sched_setaffinity
    [204] = {MOVE(OUT, 2, RESULT, 1)},                            // sched_getaffinity
    [208] = {MOVE(OUT, 3, RESULT, 32), MOVE(IN, 4, BYTES, 16)},   // io_getevents
    [217] = {MOVE(OUT, 1, RESULT, 1)},                            // getdents64
    [220] = {MOVE(IN, 1, EACH, PER(2, 6)), MOVE(IN, 3, BYTES, 16)}, // semtimedop
    [222] = {MOVE(IN, 1, BYTES, 64), MOVE(OUT, 2, BYTES, 4)},     // timer_create
    [223] = {MOVE(IN, 2, BYTES, 32), MOVE(OUT, 3, BYTES, 32)},    // timer_settime
    [224] = {MOVE(OUT, 1, BYTES, 32)},                            // timer_gettime
    [227] = {MOVE(IN, 1, BYTES, 16)},                             // clock_settime
    [228] = {MOVE(OUT, 1, BYTES, 16)},                            // clock_gettime
    [229] = {MOVE(OUT, 1, BYTES, 16)},                            // clock_getres
    [230] = {MOVE(IN, 2, BYTES, 16)},                             // clock_nanosleep
    [232] = {MOVE(OUT, 1, RESULT, 12)},                           // epoll_wait
    [233] = {MOVE(IN, 3, BYTES, 12)},                             // epoll_ctl
    [235] = {MOVE(IN, 0, PATH, 0), MOVE(IN, 1, BYTES, 32)},       // utimes
    [237] = {MOVE(IN, 3, FD_SET, 4)},                             // mbind
    [238] = {MOVE(IN, 1, FD_SET, 2)},                             // set_mempolicy
    [239] = {MOVE(OUT, 0, BYTES, 4), MOVE(OUT, 1, FD_SET, 2)},    // get_mempolicy
    [240] = ONE_PATH,                                             // mq_open
    [241] = ONE_PATH,                                             // mq_unlink
    [242] = {MOVE(IN, 1, ARGUMENT, 2)},                           // mq_timedsend
    [243] = {MOVE(OUT, 1, RESULT, 1)},                            // mq_timedreceive
    [245] = {MOVE(IN, 1, BYTES, 64), MOVE(OUT, 2, BYTES, 64)},    // mq_getsetattr
    [247] = {MOVE(OUT, 2, BYTES, 128), MOVE(OUT, 4, BYTES, 144)}, // waitid
    [254] = AT_PATH,                                              // inotify_add_watch
    [257] = AT_PATH,                                              // openat
    [258] = AT_PATH,                                              // mkdirat
    [259] = AT_PATH,                                              // mknodat
    [260] = AT_PATH,                                              // fchownat
    [261] = {MOVE(IN, 1, PATH, 0), MOVE(IN, 2, BYTES, 32)},       // futimesat
    [262] = {MOVE(IN, 1, PATH, 0), MOVE(OUT, 2, BYTES, 144)},     // newfstatat
    [263] = AT_PATH,                                              // unlinkat
    [264] = {MOVE(IN, 1, PATH, 0), MOVE(IN, 3, PATH, 0)},         // renameat
    [265] = {MOVE(IN, 1, PATH, 0), MOVE(IN, 3, PATH, 0)},         // linkat
    [266] = {MOVE(IN, 0, PATH, 0), MOVE(IN, 2, PATH, 0)},         // symlinkat
    [267] = {MOVE(IN, 1, PATH, 0), MOVE(OUT, 2, RESULT, 1)},      // readlinkat
    [268] = AT_PATH,                                              // fchmodat
    [269] = AT_PATH,                                              // faccessat
    [270] = {MOVE(IN | OUT, 1, FD_SET, 0), MOVE(IN | OUT, 2, FD_SET, 0),
             MOVE(IN | OUT, 3, FD_SET, 0), MOVE(IN | OUT, 4, BYTES, 16)}, // pselect6
    [271] = {MOVE(IN | OUT, 0, EACH, PER(1, 8)), MOVE(IN, 2, BYTES, 16),
             MOVE(IN, 3, BYTES, 8)},                              // ppoll
    [275] = {MOVE(IN | OUT, 1, BYTES, 8), MOVE(IN | OUT, 3, BYTES, 8)}, // splice
    [278] = {MOVE(IN, 1, VECTOR, 2)},                             // vmsplice
    [279] = {MOVE(IN, 2, EACH, PER(1, 8)), MOVE(IN, 3, EACH, PER(1, 4)),
             MOVE(OUT, 4, EACH, PER(1, 4))},                      // move_pages
    [280] = {MOVE(IN, 1, PATH, 0), MOVE(IN, 2, BYTES, 32)},       // utimensat
    [281] = {MOVE(IN, 4, BYTES, 8), MOVE(OUT, 1, RESULT, 12)},    // epoll_pwait
    [282] = {MOVE(IN, 1, BYTES, 8)},                              // signalfd
    [286] = {MOVE(IN, 2, BYTES, 32), MOVE(OUT, 3, BYTES, 32)},    // timerfd_settime
    [287] = {MOVE(OUT, 1, BYTES, 32)},                            // timerfd_gettime
    [288] = {ADDRESS_OUT(1)},                                     // accept4
    [289] = {MOVE(IN, 1, BYTES, 8)},                              // signalfd4
    [293] = {MOVE(OUT, 0, BYTES, 8)},                             // pipe2
    [295] = {MOVE(OUT, 1, VECTOR, 2)},                            // preadv
    [296] = {MOVE(IN, 1, VECTOR, 2)},                             // pwritev
    [299] = {MOVE(OUT, 1, MESSAGES, 0)},                          // recvmmsg
    [302] = {MOVE(IN, 2, BYTES, 16), MOVE(OUT, 3, BYTES, 16)},    // prlimit64
    [305] = {MOVE(IN | OUT, 1, BYTES, 208)},                      // clock_adjtime
    [307] = {MOVE(IN, 1, MESSAGES, 0)},                           // sendmmsg
    [309] = {MOVE(OUT, 0, BYTES, 4), MOVE(OUT, 1, BYTES, 4)},     // getcpu
    [310] = {MOVE(OUT, 1, VECTOR, 2)},                            // process_vm_readv
    [311] = {MOVE(IN, 1, VECTOR, 2)},                             // process_vm_writev
    [314] = {MOVE(IN, 1, BYTES, 48)},                             // sched_setattr
    [315] = {MOVE(OUT, 1, ARGUMENT, 2)},                          // sched_getattr
    [316] = {MOVE(IN, 1, PATH, 0), MOVE(IN, 3, PATH, 0)},         // renameat2
    [318] = {MOVE(OUT, 0, RESULT, 1)},                            // getrandom
    [319] = ONE_PATH,                                             // memfd_create
    [326] = {MOVE(IN | OUT, 1, BYTES, 8), MOVE(IN | OUT, 3, BYTES, 8)}, // copy_file_range
    [327] = {MOVE(OUT, 1, VECTOR, 2)},                            // preadv2
    [328] = {MOVE(IN, 1, VECTOR, 2)},                             // pwritev2
    [332] = {MOVE(IN, 1, PATH, 0), MOVE(OUT, 4, BYTES, 256)},     // statx
    [333] = {MOVE(OUT, 3, RESULT, 32), MOVE(IN, 4, BYTES, 16)},   // io_pgetevents
    [437] = {MOVE(IN, 1, PATH, 0), MOVE(IN, 2, ARGUMENT, 3)},     // openat2
    [439] = AT_PATH,                                              // faccessat2
    [441] = {MOVE(OUT, 1, RESULT, 12)},                           // epoll_pwait2
    [449] = {MOVE(IN, 3, BYTES, 16)},                             // futex_waitv
    [451] = {MOVE(IN, 1, BYTES, 16), MOVE(OUT, 2, BYTES, 40)},    // cachestat
    [452] = AT_PATH,                                              // fchmodat2
};
// clang-format on

// Calls with a function of their own. Those without a line are in tt_moves_data, too.
#define FUTEX 202
#define IOCTL 16
#define WAIT4 61
#define WAITID 247
#define FUTEX_WAITV 449
#define PROCESS_VM_READV 310
#define PROCESS_VM_WRITEV 311

// Whether the call moves data in a way that is known here.
int tt_moves_data(u64 number) {
    return number < SYSTEM_CALLS && (moves[number][0].way || number == FUTEX || number == IOCTL);
}

struct message {
    u64 name;
    u32 name_bytes;
    u64 vectors, count, control, control_bytes;
    u32 flags;
};

// The first `moved` bytes of the buffers of a vector, and the vector itself.
static void move_vectors(struct thread *t, u64 address, u64 count, u64 moved, int out, u32 site) {
    enum { AT_ONCE = 16 };
    struct piece pieces[AT_ONCE];
    read_range(t, address, count * sizeof *pieces, site);
    for (u64 k = 0; k < count && moved; k++) {
        u64 left = count - k < AT_ONCE ? count - k : AT_ONCE, bytes = left * sizeof *pieces;
        if (k % AT_ONCE == 0)
            take_read(pieces, address + k * sizeof *pieces, bytes);
        u64 whole = pieces[k % AT_ONCE].bytes, part = whole < moved ? whole : moved;
        access_range(t, pieces[k % AT_ONCE].base, part, out, site);
        moved -= part;
    }
}

static void move_message(struct thread *t, u64 address, u64 moved, int out, u32 site) {
    struct message m;
    take_read(&m, address, sizeof m);
    read_range(t, address, sizeof m, site);
    if (m.name)
        access_range(t, m.name, m.name_bytes, out, site);
    move_vectors(t, m.vectors, m.count, moved, out, site);
    if (m.control)
        access_range(t, m.control, m.control_bytes, out, site);
    if (out)
        write_range(t, address + 48, 4, site); // flags
}

// A word of 32 bits that the kernel has read or written.
static u32 word_at(u64 address) {
    u32 word;
    take_read(&word, address, sizeof word);
    return word;
}

static void move_messages(struct thread *t, u64 address, u64 count, int out, u32 site) {
    enum { STRIDE = 64, LENGTH = 56 };
    for (u64 k = 0; k < count; k++, address += STRIDE) {
        move_message(t, address, word_at(address + LENGTH), out, site);
        write_range(t, address + LENGTH, 4, site);
    }
}

// Bytes of a path with its NUL, as far as it is there. What the kernel has read it has read to the
// end.
static u64 path_bytes(u64 address, int is_read) {
    enum { PIECE = 64 };
    char piece[PIECE];
    u64 n = 0;
    while (n < MAX_PATH) {
        u64 part = bytes_in_page(address + n, PIECE);
        if (is_read)
            take_read(piece, address + n, part);
        else if (tt_take(piece, address + n, part) != part)
            return n;
        for (u64 k = 0; k < part; k++, n++)
            if (!piece[k])
                return n + 1;
    }
    return MAX_PATH;
}

// The kernel looks at no more than it can use, whatever the program says.
static u64 at_most(u64 value, u64 max) { return value < max ? value : max; }

// Of a length by PER.
static u64 value_of(const struct move *m, const u64 *arguments) { return arguments[m->n & 7]; }

static void move_one(struct thread *t, const struct move *m, const u64 *arguments, u64 result, int out,
                     u32 site) {
    u64 at = arguments[m->argument], bytes = 0, value = m->n < 6 ? arguments[m->n] : 0;
    switch (m->length) {
    case BYTES: bytes = m->n; break;
    case RESULT: bytes = result * m->n; break;
    case ARGUMENT: bytes = at_most(value, MAX_ARGUMENT); break;
    case UP_TO: bytes = at_most(result, value_of(m, arguments)) * (m->n >> 3); break;
    case EACH: bytes = at_most(value_of(m, arguments), MAX_ARGUMENT) * (m->n >> 3); break;
    case AT_ARGUMENT: bytes = value ? at_most(word_at(value), MAX_ARGUMENT) : 0; break;
    case PATH: bytes = path_bytes(at, (int64_t)result >= 0); break;
    case FD_SET: bytes = (at_most(value, MAX_ARGUMENT) + 63) / 64 * 8; break;
    case VECTOR: move_vectors(t, at, value, result, out, site); return;
    case MESSAGE: move_message(t, at, result, out, site); return;
    case MESSAGES: move_messages(t, at, result, out, site); return;
    }
    access_range(t, at, bytes, out, site);
}

// futex: the kernel looks at the word, or changes it.
static void move_futex(struct thread *t, const struct frame *f, u32 site) {
    enum { WAIT = 0, CMP_REQUEUE = 4, WAKE_OP = 5, LOCK_PI = 6, TRYLOCK_PI = 8, WAIT_BITSET = 9 };
    const int64_t FAULT = -14;
    u64 operation = f->rsi & 0x7f;
    if ((int64_t)f->rax == FAULT)
        return;
    if (operation == WAIT || operation == WAIT_BITSET || operation == CMP_REQUEUE) {
        read_range(t, f->rdi, 4, site);
    } else if (operation >= LOCK_PI && operation <= TRYLOCK_PI) {
        read_range(t, f->rdi, 4, site);
        write_range(t, f->rdi, 4, site);
    } else if (operation == WAKE_OP) {
        read_range(t, f->r8, 4, site);
        write_range(t, f->r8, 4, site);
    }
}

// futex_waitv: the kernel looks at the word of each waiter. It stops at one that is not as
// expected; those behind are counted, too.
static void move_futex_waitv(struct thread *t, const struct frame *f, u32 site) {
    enum { MAX_WAITERS = 128 };
    const int64_t INTERRUPTED = -4, NOT_AS_EXPECTED = -11, TIMED_OUT = -110;
    struct {
        u64 expected, word;
        u32 flags, reserved;
    } waiter;
    int64_t result = (int64_t)f->rax;
    if (result < 0 && result != INTERRUPTED && result != NOT_AS_EXPECTED && result != TIMED_OUT)
        return;
    u64 count = at_most((u32)f->rsi, MAX_WAITERS);
    read_range(t, f->rdi, count * sizeof waiter, site);
    for (u64 k = 0; k < count; k++) {
        // A filter may have answered in the kernel's place.
        if (tt_take(&waiter, f->rdi + k * sizeof waiter, sizeof waiter) != sizeof waiter)
            return;
        read_range(t, waiter.word, 4, site);
    }
}

// ioctl: newer request numbers tell direction and length.
static void move_ioctl(struct thread *t, const struct frame *f, u32 site) {
    u64 way = f->rsi >> 30 & 3, bytes = f->rsi >> 16 & 0x3fff;
    if ((int64_t)f->rax < 0 || !f->rdx)
        return;
    if (way & 1)
        read_range(t, f->rdx, bytes, site);
    if (way & 2)
        write_range(t, f->rdx, bytes, site);
}

// A child was killed: only its parent is told by which signal.
static void note_death(u64 pid, u64 signal) {
    struct deaths *all = tt_session.deaths;
    u64 number = __atomic_fetch_add(&all->count, 1, __ATOMIC_RELAXED);
    if (number < MAX_DEATHS)
        __atomic_store_n(&all->each[number], pid << DEATH_PID_SHIFT | signal, __ATOMIC_RELAXED);
}

static void note_wait(u64 number, const struct frame *f) {
    enum { STOPPED = 0x7f, CLD_KILLED = 2, CLD_DUMPED = 3 };
    int64_t result = (int64_t)f->rax;
    if (number == WAIT4 && result > 0 && f->rsi) {
        u32 signal = word_at(f->rsi) & 0x7f;
        if (signal && signal != STOPPED)
            note_death((u64)result, signal);
    }
    if (number == WAITID && result == 0 && f->rdx) {
        u32 info[7]; // siginfo_t: code, pid and status are words 2, 4, 6
        take_read(info, f->rdx, sizeof info);
        if (info[2] == CLD_KILLED || info[2] == CLD_DUMPED)
            note_death(info[4], info[6]);
    }
}

// The memory of the other process, as far as the result goes. The kernel has read the vector.
static void move_remote(struct thread *t, const struct frame *f, int writes, u32 site) {
    u64 moved = f->rax;
    for (u64 k = 0; k < f->r8 && moved; k++) {
        struct piece piece;
        read_range(t, f->r10 + k * sizeof piece, sizeof piece, site);
        take_read(&piece, f->r10 + k * sizeof piece, sizeof piece);
        u64 part = piece.bytes < moved ? piece.bytes : moved;
        access_remote(t, (u32)f->rdi, piece.base, part, writes, site);
        moved -= part;
    }
}

// The call has returned: rax = result, arguments as they were.
u64 tt_after_syscall(struct thread *t, u64 number, const struct frame *f) {
    const int64_t NO_ENTRY = -2;
    u64 arguments[6] = {f->rdi, f->rsi, f->rdx, f->r10, f->r8, f->r9};
    int64_t result = (int64_t)f->rax;
    u32 site = site_of(t);
    if (number == FUTEX)
        move_futex(t, f, site);
    if (number == IOCTL)
        move_ioctl(t, f, site);
    if (number == FUTEX_WAITV)
        move_futex_waitv(t, f, site);
    note_wait(number, f);
    if ((number == PROCESS_VM_READV || number == PROCESS_VM_WRITEV) && result > 0)
        move_remote(t, f, number == PROCESS_VM_WRITEV, site);
    for (int out = 0; out < 2; out++)
        for (const struct move *m = moves[number]; m < moves[number] + MOVES && m->way; m++) {
            // A path that is not there has been read all the same.
            int done = result >= 0 || (result == NO_ENTRY && m->length == PATH);
            if (done && arguments[m->argument] && m->way & (out ? OUT : IN))
                move_one(t, m, arguments, (u64)result, out, site);
        }
    return has_chosen(t);
}

#endif
