// Repeated string instructions: their extent is known from the registers, or by looking.
#ifndef TT_REPEAT_H
#define TT_REPEAT_H
#include "access.h"
#include "registers.h"

#define FLAG_DIRECTION 0x400

struct peeked {
    u64 value, failed;
};

// The element of `size` bytes at an address that need not be mapped. `signals.rs` leads a fault in
// here to tt_peek_failed.
struct peeked tt_peek(u64 address, u64 size);

__asm__(".text\n"
        ".globl tt_peek, tt_peek_failed\n"
        ".hidden tt_peek, tt_peek_failed\n"
        "tt_peek:\n"
        "    xorl %edx, %edx\n"
        "    cmpq $1, %rsi\n"
        "    je 1f\n"
        "    cmpq $2, %rsi\n"
        "    je 2f\n"
        "    cmpq $4, %rsi\n"
        "    je 4f\n"
        "    movq (%rdi), %rax\n"
        "    ret\n"
        "1:  movzbl (%rdi), %eax\n"
        "    ret\n"
        "2:  movzwl (%rdi), %eax\n"
        "    ret\n"
        "4:  movl (%rdi), %eax\n"
        "    ret\n"
        "tt_peek_failed:\n"
        "    xorl %eax, %eax\n"
        "    movl $1, %edx\n"
        "    ret\n");

// Elements that a scas or cmps will look at. Reads what the instruction is about to read, up to
// where that will fault.
static u64 scanned(u64 descriptor, u64 size, const struct frame *f, long step) {
    u64 wanted = f->rax & (size == 8 ? ~0ull : (1ull << 8 * size) - 1);
    u64 left = f->rdi, right = f->rsi, done = 0;
    while (done < f->rcx) {
        struct peeked a = tt_peek(left, size), b = {wanted, 0};
        if (descriptor & REP_COMPARES)
            b = tt_peek(right, size);
        if (a.failed | b.failed)
            break;
        done++;
        if ((a.value == b.value) == !!(descriptor & REP_WHILE_DIFFERENT))
            break;
        left += step;
        right += step;
    }
    return done;
}

// A repeated string instruction is about to run with the registers in f.
u64 tt_slow_repeat(struct thread *t, u64 descriptor, const struct frame *f) {
    u64 size = descriptor & REP_ELEMENT;
    long step = f->flags & FLAG_DIRECTION ? -(long)size : (long)size;
    u64 count = descriptor & REP_SCANS ? scanned(descriptor, size, f, step) : f->rcx;
    if (!count)
        return 0;
    u32 site = site_of(t);
    u64 bytes = count * size;
    u64 back = step < 0 ? bytes - size : 0; // lowest address when running downwards
    if (descriptor & (REP_READS_RSI | REP_COMPARES))
        read_range(t, f->rsi - back, bytes, site);
    if (descriptor & REP_SCANS)
        read_range(t, f->rdi - back, bytes, site);
    if (descriptor & REP_WRITES_RDI)
        write_range(t, f->rdi - back, bytes, site);
    return has_chosen(t);
}

#endif
