// The program's registers as the stubs save them, and fields of the thread's control block.
#ifndef TT_REGISTERS_H
#define TT_REGISTERS_H
#include "shadow.h"

// engine::control::SITE, INDICES and SELECTED.
#define CONTROL_SITE 272
#define CONTROL_INDICES 640
#define CONTROL_SELECTED 704

// Mirrors stubs.rs.
struct frame {
    u64 r15, r14, r13, r12, r11, r10, r9, r8, rdi, rsi, rbp, rbx, rdx, rcx, rax, flags;
};

// Code site of the instruction that came into the agent.
static inline u32 site_of(const struct thread *t) { return *(u32 *)(t->page + CONTROL_SITE); }

#endif
