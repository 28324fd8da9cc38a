// Fields of the thread's control block.
#ifndef TT_REGISTERS_H
#define TT_REGISTERS_H
#include "shadow.h"

// Code site of the instruction that came into the agent.
static inline u32 site_of(const struct thread *t) { return *(u32 *)(t->page + CONTROL_SITE); }

#endif
