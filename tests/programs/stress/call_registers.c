// What a system call leaves in the registers: %rcx = the address behind it, %r11 = the flags, and
// the flags as they were. Prints that after calls of all kinds, in children that calls make, in
// handlers that interrupt calls, after handlers that change them, and under the trap flag.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

// What a call left.
struct left {
    uint64_t result, rcx, r11, flags;
};

struct call {
    uint64_t flags, number, a, b, c, d, e;
};

// Makes the call with its flags, and with %rcx and %r11 as they are to be afterwards, so that they
// are so whenever a signal comes. If the result is 0 and `child` is not, this is a child: what the
// call left goes that many bytes behind the parent's, and the child ends.
void make(const struct call *call, struct left *left, uint64_t child);
extern char make_instruction[], make_next[];
__asm__(".text\n"
        "make:\n"
        "  push %rbx\n push %rbp\n push %r12\n"
        "  mov %rsi, %rbx\n"
        "  mov %rdx, %r12\n"
        "  mov %rdi, %rbp\n"
        "  mov 16(%rbp), %rdi\n mov 24(%rbp), %rsi\n mov 32(%rbp), %rdx\n"
        "  mov 40(%rbp), %r10\n mov 48(%rbp), %r8\n xor %r9d, %r9d\n"
        "  mov 8(%rbp), %rax\n"
        "  lea make_next(%rip), %rcx\n"
        "  mov (%rbp), %r11\n"
        "  push (%rbp)\n popfq\n"
        "make_instruction:\n"
        "  syscall\n"
        "make_next:\n"
        "  mov %rcx, %rbp\n" // the flags live on, over these
        "  mov %rax, %rcx\n"
        "  jrcxz 1f\n"
        "  jmp 3f\n"
        "1: lea (%rbx, %r12), %rbx\n"
        "3: mov %rax, (%rbx)\n"
        "  mov %rbp, 8(%rbx)\n"
        "  mov %r11, 16(%rbx)\n"
        "  pushfq\n pop 24(%rbx)\n"
        "  push $0x202\n popfq\n"
        "  test %r12, %r12\n jz 2f\n"
        "  test %rax, %rax\n jnz 2f\n"
        "  xor %edi, %edi\n mov $60, %eax\n syscall\n" // exit
        "2: pop %r12\n pop %rbp\n pop %rbx\n"
        "  ret\n");

static const struct {
    const char *name;
    uint64_t flags;
} all_flags[] = {
    {"none", 0x202},         {"all", 0x202 | 0x8d5},      {"carry", 0x203},
    {"overflow", 0xa02},     {"down", 0x602},             {"alignment", 0x40202},
    {"identification", 0x200202},
};
enum { FLAGS = sizeof all_flags / sizeof *all_flags };

static const char *place(uint64_t rcx) { return rcx == (uint64_t)make_next ? "next" : "elsewhere"; }

static void show(const char *what, const struct left *left) {
    printf("%s: rcx %s, r11 %lx, flags %lx\n", what, place(left->rcx), left->r11, left->flags);
}

static void kinds_of_calls(void) {
    static char bytes[64];
    static const char nowhere[] = "/nonexistent/program";
    static char *const none[] = {0};
    const struct {
        const char *name;
        struct call call;
    } calls[] = {
        {"getpid", {.number = SYS_getpid}},
        {"close", {.number = SYS_close, .a = -1u}},
        {"write", {.number = SYS_write, .a = -1u, .b = (uint64_t)bytes, .c = 1}},
        {"uname", {.number = SYS_uname, .a = (uint64_t)(char[400]){0}}},
        {"munmap", {.number = SYS_munmap, .a = 1}},
        {"brk", {.number = SYS_brk}},
        {"rt_sigaction", {.number = SYS_rt_sigaction, .a = 999, .d = 8}},
        {"execve", {.number = SYS_execve, .a = (uint64_t)nowhere, .b = (uint64_t)none, .c = (uint64_t)none}},
        {"clone", {.number = SYS_clone, .a = CLONE_THREAD}},
        {"unknown", {.number = 499}},
        {"unknown", {.number = 0x10000 | SYS_munmap}},
        {"unknown", {.number = 0x10000 | SYS_write, .a = 1, .b = (uint64_t)bytes, .c = 1}},
        {"negative", {.number = -1ul}},
    };
    for (unsigned k = 0; k < sizeof calls / sizeof *calls; k++)
        for (int f = 0; f < FLAGS; f++) {
            struct call call = calls[k].call;
            struct left left = {0};
            char name[64];
            call.flags = all_flags[f].flags;
            make(&call, &left, 0);
            snprintf(name, sizeof name, "%s, %s", calls[k].name, all_flags[f].name);
            show(name, &left);
        }
}

static void children(void) {
    static uint8_t stack[1 << 16] __attribute__((aligned(64)));
    volatile uint32_t *lives = (volatile uint32_t *)stack;
    const uint64_t thread =
        CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
    const struct {
        const char *name;
        struct call call;
    } calls[] = {
        {"fork", {.number = SYS_fork}},
        {"clone as fork", {.number = SYS_clone, .a = SIGCHLD}},
        {"vfork", {.number = SYS_vfork}},
        {"thread", {.number = SYS_clone, .a = thread, .d = (uint64_t)lives}},
        {"process in the same memory", {.number = SYS_clone, .a = CLONE_VM | SIGCHLD}},
    };
    struct left *left = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (unsigned k = 0; k < sizeof calls / sizeof *calls; k++)
        for (int f = 0; f < 4; f++) {
            struct call call = calls[k].call;
            char name[64];
            call.flags = all_flags[f].flags;
            memset(left, 0, 2 * sizeof *left);
            if (call.a & CLONE_VM) call.b = (uint64_t)(stack + sizeof stack);
            *lives = 1;
            make(&call, left, sizeof *left);
            if ((long)left->result < 0) printf("errno %ld\n", -(long)left->result);
            if (call.a & CLONE_THREAD) {
                while (*lives) syscall(SYS_futex, lives, FUTEX_WAIT, 1, 0);
            } else {
                while (waitpid(-1, 0, 0) < 0 && errno == EINTR) continue;
            }
            snprintf(name, sizeof name, "%s, %s", calls[k].name, all_flags[f].name);
            show(name, left);
            show("its child", left + 1);
        }
}

static int ends[2];
static volatile uint64_t seen_rcx, seen_r11, seen_flags, handled, wrong;
static volatile int64_t seen_at;

static uint64_t registers_at(const greg_t *r) {
    return r[REG_RIP] == (greg_t)make_instruction || r[REG_RIP] == (greg_t)make_next;
}

// A call is interrupted: what the handler sees of it. Ends the call if it is made again.
static void on_interruption(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    const greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (!registers_at(r) || (r[REG_RIP] == (greg_t)make_next && r[REG_RAX] != -EINTR)) return;
    seen_at = r[REG_RIP] - (greg_t)make_instruction;
    seen_rcx = (uint64_t)r[REG_RCX], seen_r11 = (uint64_t)r[REG_R11], seen_flags = (uint64_t)r[REG_EFL];
    handled++;
    if (write(ends[1], "x", 1) != 1) wrong++;
}

static void every(long microseconds) {
    struct itimerval time = {{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &time, 0);
}

static void interruptions(void) {
    char byte;
    if (pipe(ends)) return;
    for (int again = 0; again < 2; again++) {
        struct sigaction action = {.sa_sigaction = on_interruption,
                                   .sa_flags = SA_SIGINFO | (again ? SA_RESTART : 0)};
        sigaction(SIGALRM, &action, 0);
        struct call call = {.flags = 0x202 | 0x8d5, .number = SYS_read, .a = (uint64_t)ends[0], .b = (uint64_t)&byte, .c = 1};
        struct left left;
        handled = 0;
        every(5000);
        do make(&call, &left, 0);
        while (!handled);
        every(0);
        printf("interrupted, %s: at %ld, rcx %s, r11 %lx, flags %lx\n", again ? "made again" : "ended",
               (long)seen_at, place(seen_rcx), seen_r11, seen_flags & ~0x10000ul);
        show("afterwards", &left);
        if (!again && read(ends[0], &byte, 1) != 1) return;
    }
}

// Another value of each register that a call changes, from the handler's frame.
static void on_change(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (!registers_at(r)) return;
    printf("before the change: rcx %s, r11 %llx\n", place((uint64_t)r[REG_RCX]), r[REG_R11]);
    r[REG_RCX] = 0x1111, r[REG_R11] = 0x2222, r[REG_EFL] ^= 0x8d5;
}

static void changes(void) {
    struct sigaction action = {.sa_sigaction = on_change, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, 0);
    struct call call = {.flags = 0x203, .number = SYS_kill, .a = (uint64_t)getpid(), .b = SIGUSR1};
    struct left left;
    make(&call, &left, 0);
    printf("changed: rcx %lx, r11 %lx, flags %lx\n", left.rcx, left.r11, left.flags);
}

static void on_storm(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    const greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    handled++;
    if (!registers_at(r)) return;
    if (r[REG_RCX] != (greg_t)make_next || r[REG_R11] != (0x202 | 0x8d5)) wrong++;
    if ((r[REG_EFL] & 0x8d5) != 0x8d5) wrong++;
}

// Signals wherever they come, in and around calls that somebody may look at before they are made.
static void storm(void) {
    static char bytes[400];
    struct sigaction action = {.sa_sigaction = on_storm, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    const struct call calls[] = {
        {.number = SYS_getpid},
        {.number = SYS_uname, .a = (uint64_t)bytes},
        {.number = SYS_munmap, .a = 1},
    };
    handled = 0;
    every(200);
    for (unsigned k = 0; handled < 1000; k++) {
        struct call call = calls[k % 3];
        struct left left;
        call.flags = 0x202 | 0x8d5;
        make(&call, &left, 0);
        wrong += left.rcx != (uint64_t)make_next || left.r11 != call.flags || left.flags != call.flags;
    }
    every(0);
    printf("%lu were wrong\n", (unsigned long)wrong);
}

static struct {
    uint64_t at, rcx, r11, flags;
} traps[64];
static unsigned trap_count;

static void on_trap(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    const greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    const uint64_t at = (uint64_t)r[REG_RIP] - (uint64_t)make;
    if (trap_count == 64 || at > 256) return;
    traps[trap_count].at = at;
    traps[trap_count].rcx = (uint64_t)r[REG_RCX];
    traps[trap_count].r11 = (uint64_t)r[REG_R11];
    traps[trap_count++].flags = (uint64_t)r[REG_EFL] & ~0x10000ul;
}

static void steps(void) {
    const uint64_t numbers[] = {SYS_getpid, SYS_munmap, SYS_uname};
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, 0);
    for (int k = 0; k < 3; k++) {
        struct call call = {.flags = 0x202 | 0x100 | 0x8d5, .number = numbers[k], .a = 1};
        struct left left;
        trap_count = 0;
        make(&call, &left, 0);
        for (unsigned t = 0; t < trap_count; t++)
            printf("trap at %lu: rcx %s, r11 %lx, flags %lx\n", traps[t].at, place(traps[t].rcx), traps[t].r11,
                   traps[t].flags);
        show("stepped", &left);
    }
}

int main(void) {
    setvbuf(stdout, 0, _IOFBF, 1 << 16);
    kinds_of_calls();
    fflush(stdout);
    children();
    interruptions();
    changes();
    storm();
    steps();
    return wrong != 0;
}
