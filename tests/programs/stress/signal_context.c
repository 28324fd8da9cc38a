// What a signal handler sees of the interrupted code must be the program's own: the program counter
// inside the loop, registers with the values that the loop keeps in them, a usable stack pointer.
// A store and a load in the loop and a live carry flag make an instrumented copy borrow registers
// and save flags.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/time.h>
#include <ucontext.h>

static volatile sig_atomic_t seen, in_loop, wrong;
static uint64_t cells[64];
extern char loop_start[], loop_end[];

static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    const greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    seen++;
    if (r[REG_RIP] < (greg_t)loop_start || r[REG_RIP] >= (greg_t)loop_end)
        return;
    in_loop++;
    // All but the loop's counters and what it loads is constant.
    if (r[REG_RBX] != 0x1111 || r[REG_R12] != 0x2222 || r[REG_R13] != 0x3333 || r[REG_R14] != 0x4444 ||
        r[REG_R15] != 0x5555 || r[REG_RDX] != (greg_t)cells || r[REG_RSI] != 0x6666 ||
        r[REG_RDI] != 0x7777 || r[REG_R10] != 0x8888 || r[REG_R11] != 0x9999)
        wrong++;
    // The carry flag is always set where the loop keeps it.
    if (!(r[REG_EFL] & 1))
        wrong++;
}

__attribute__((noinline)) static void spin(uint64_t rounds) {
    uint64_t *address = cells;
    __asm__ volatile("mov $0x1111, %%ebx\n mov $0x2222, %%r12d\n mov $0x3333, %%r13d\n"
                     "mov $0x4444, %%r14d\n mov $0x5555, %%r15d\n mov $0x6666, %%esi\n"
                     "mov $0x7777, %%edi\n mov $0x8888, %%r10d\n mov $0x9999, %%r11d\n"
                     "xor %%r8d, %%r8d\n"
                     "stc\n"
                     "loop_start:\n"
                     "mov 8(%%rdx), %%rax\n"
                     "mov %%rax, 64(%%rdx)\n"
                     "lea 1(%%r8), %%r8\n"
                     "mov 128(%%rdx), %%r9\n"
                     "lea -1(%%rcx), %%rcx\n"
                     "jrcxz loop_end\n"
                     "jmp loop_start\n"
                     "loop_end:\n"
                     : "+d"(address), "+c"(rounds)
                     :
                     : "rax", "rbx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
                       "r15", "memory", "cc");
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    struct itimerval every = {{0, 300}, {0, 300}};
    setitimer(ITIMER_REAL, &every, 0);
    while (in_loop < 500)
        spin(2000000);
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, 0);
    printf("%s\n", wrong ? "wrong" : "right");
    return wrong != 0;
}
