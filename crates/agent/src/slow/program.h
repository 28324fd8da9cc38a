// The program's memory as system calls see it: what an argument points to need not be there.
//
// Nothing else reads or writes what a program has given to a system call: a bad pointer is the
// kernel's to refuse, not ours to crash on. Before a page is read, the kernel is asked whether it
// could, by a call that does nothing but fail in one way or another: rt_sigprocmask looks at the
// set before it looks at what is to be done with it. What is written the kernel copies
// (process_vm_readv). Each stands in for the other where a filter forbids one of them.
//
// Neighbours: `program.rs` is the same for the Rust part; `system_calls.h` uses it.
#ifndef TT_PROGRAM_H
#define TT_PROGRAM_H
#include "wait.h"

#define PAGE_BYTES 4096ull

enum { CALL_RT_SIGPROCMASK = 14, CALL_GETPID = 39, CALL_PROCESS_VM_READV = 310 };

struct piece {
    u64 base, bytes;
};

static inline long call6(long number, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f) {
    long result;
    register u64 r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

// Whether the kernel can read the page that holds this address. The set is not its first word:
// there is no set at 0.
static int is_readable(u64 address) {
    const long FAULT = -14;
    const u64 NOTHING_TO_DO = ~0ull, NO_OLD_SET = 0, SET_BYTES = 8;
    u64 set = (address & ~(PAGE_BYTES - 1)) + SET_BYTES;
    return call4(CALL_RT_SIGPROCMASK, NOTHING_TO_DO, set, NO_OLD_SET, SET_BYTES) != FAULT;
}

static int copy_plainly(u64 to, u64 from, u64 bytes) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
    return 1;
}

enum copied { COPIED, MISSING, CANNOT_TELL };

static enum copied copy_by_kernel(u64 to, u64 from, u64 bytes) {
    const long NOT_PERMITTED = -1, NO_CALL = -38;
    struct piece local = {to, bytes}, remote = {from, bytes};
    if (is_forbidden(NO_COPY))
        return CANNOT_TELL;
    u64 pid = (u64)call4(CALL_GETPID, 0, 0, 0, 0);
    long result = call6(CALL_PROCESS_VM_READV, pid, (u64)&local, 1, (u64)&remote, 1, 0);
    if (result == NOT_PERMITTED || result == NO_CALL)
        return CANNOT_TELL;
    return result == (long)bytes ? COPIED : MISSING;
}

// Reads bytes of one page of the program's; whether they are there.
static int take_from_page(u64 to, u64 from, u64 bytes) {
    if (!is_forbidden(NO_PROBE))
        return is_readable(from) && copy_plainly(to, from, bytes);
    enum copied copied = copy_by_kernel(to, from, bytes);
    return copied == CANNOT_TELL ? copy_plainly(to, from, bytes) : copied == COPIED;
}

// Writes bytes of one page of the program's; whether it could.
static int give_to_page(u64 to, u64 from, u64 bytes) {
    enum copied copied = copy_by_kernel(to, from, bytes);
    if (copied != CANNOT_TELL)
        return copied == COPIED;
    return (is_forbidden(NO_PROBE) || is_readable(to)) && copy_plainly(to, from, bytes);
}

// Bytes from `at` to the end of its page, `most` at most.
static u64 bytes_in_page(u64 at, u64 most) {
    u64 left = PAGE_BYTES - (at & (PAGE_BYTES - 1));
    return most < left ? most : left;
}

// Reads the program's memory; how many bytes are there, up to the first page that cannot be read.
u64 tt_take(void *to, u64 from, u64 bytes) {
    u64 done = 0, part = bytes_in_page(from, bytes);
    for (; done < bytes && take_from_page((u64)to + done, from + done, part);
         part = bytes_in_page(from + done, bytes - done))
        done += part;
    return done;
}

// Reads what the kernel has just read or written for the program itself, so that it need not be
// asked.
static inline void take_read(void *to, u64 from, u64 bytes) { copy_plainly((u64)to, from, bytes); }

// Writes the program's memory; how many bytes could be written.
u64 tt_give(u64 to, const void *from, u64 bytes) {
    u64 done = 0, part = bytes_in_page(to, bytes);
    for (; done < bytes && give_to_page(to + done, (u64)from + done, part);
         part = bytes_in_page(to + done, bytes - done))
        done += part;
    return done;
}

#endif
