// A program that switches alignment checks on (AC in the flags) and goes on with everything that
// programs do, as the JVM does where it starts and as programs do that look for their own
// misaligned accesses: then whatever works for them without their knowledge has to be aligned, too.
// Nothing of the C library runs with the checks on; it is not aligned itself. What is misaligned is
// the program's own, and faults.
//
// Prints what its parts have computed, the same each time.
//
// Usage: alignment [turns]. With `turns`, all threads ever do is to take turns, and the region in
// which they do is named.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
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

enum { BYTES = 1 << 14, ALIGNMENT = 0x40000 };

static _Alignas(4096) union {
    volatile uint8_t b[BYTES];
    volatile uint16_t w[BYTES / 2];
    volatile uint32_t d[BYTES / 4];
    volatile uint64_t q[BYTES / 8];
} shared, other;

static void check_alignment(void) {
    __asm__ volatile("subq $128, %%rsp\n\tpushfq\n\torl %0, (%%rsp)\n\tpopfq\n\taddq $128, %%rsp" : : "i"(ALIGNMENT) : "memory", "cc");
}
static void check_nothing(void) {
    __asm__ volatile("subq $128, %%rsp\n\tpushfq\n\tandl %0, (%%rsp)\n\tpopfq\n\taddq $128, %%rsp" : : "i"(~ALIGNMENT) : "memory", "cc");
}
static int is_checking(void) {
    uint64_t flags;
    __asm__ volatile("subq $128, %%rsp\n\tpushfq\n\tpopq %0\n\taddq $128, %%rsp" : "=r"(flags) : : "memory");
    return (flags & ALIGNMENT) != 0;
}

static long call6(long number, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return number;
}
static long call3(long number, long a, long b, long c) { return call6(number, a, b, c, 0, 0, 0); }

// Threads take turns.
static volatile uint32_t turn;
static void wait_for(uint32_t wanted) {
    for (uint32_t now; (now = __atomic_load_n(&turn, __ATOMIC_ACQUIRE)) != wanted;)
        call6(SYS_futex, (long)&turn, FUTEX_WAIT, now, 0, 0, 0);
}
static void pass(uint32_t next) {
    __atomic_store_n(&turn, next, __ATOMIC_RELEASE);
    call6(SYS_futex, (long)&turn, FUTEX_WAKE, 1 << 20, 0, 0, 0);
}

// What a thread does when it is its turn, with the checks on. Strides bring each size to each place
// in blocks, and neighbours to each other.
static uint64_t plain(int round) {
    uint64_t sum = 0;
    for (int k = round; k < BYTES; k += 61) sum += shared.b[k]++;
    for (int k = round; k < BYTES / 2; k += 37) sum += shared.w[k]++;
    for (int k = round; k < BYTES / 4; k += 11) sum += shared.d[k]++;
    for (int k = round; k < BYTES / 8; k += 7) sum += shared.q[k]++;
    for (int k = 0; k < BYTES / 8; k++) shared.q[k] += (uint64_t)k;
    for (int k = 0; k < BYTES / 8; k += 2) sum += shared.q[k] ^ shared.q[k + 1];
    return sum;
}

static uint64_t atomics(int round) {
    uint64_t sum = 0;
    for (int k = round; k < BYTES / 8; k += 3) {
        sum += __atomic_fetch_add(&shared.q[k], 3, __ATOMIC_SEQ_CST);
        sum += __atomic_exchange_n(&shared.d[2 * k + 1], (uint32_t)k, __ATOMIC_SEQ_CST);
        uint16_t expected = shared.w[4 * k + 3];
        sum += __atomic_compare_exchange_n(&shared.w[4 * k + 3], &expected, 5, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        sum += __atomic_fetch_or(&shared.b[8 * k + 5], 1, __ATOMIC_SEQ_CST);
    }
    for (int k = 0; k < BYTES / 8; k += 6) {
        uint64_t low = shared.q[k], high = shared.q[k + 1];
        uint8_t same;
        __asm__ volatile("lock cmpxchg16b %0"
                         : "+m"(*(volatile char(*)[16])&shared.q[k]), "+a"(low), "+d"(high), "=@ccz"(same)
                         : "b"(7l), "c"(9l)
                         : "memory");
        sum += same;
    }
    return sum;
}

static uint64_t strings(int round) {
    uint64_t sum = 0;
    for (int k = 0; k < 40; k++) {
        volatile void *to = &shared.b[k * 129 + round], *from = &other.b[k * 67];
        uint64_t count = 1 + (uint64_t)k * 5;
        __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
        to = &shared.q[k * 17], from = &other.q[k * 9], count = 1 + (uint64_t)k;
        __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
        to = &shared.d[k * 31], count = 1 + (uint64_t)k;
        __asm__ volatile("rep stosl" : "+D"(to), "+c"(count) : "a"(k) : "memory");
        to = &shared.b[k * 65 + 1], count = 100;
        __asm__ volatile("repne scasb" : "+D"(to), "+c"(count) : "a"(k) : "memory", "cc");
        sum += count;
        to = &shared.w[k * 3], from = &shared.w[k * 5], count = 30;
        __asm__ volatile("repe cmpsw" : "+D"(to), "+S"(from), "+c"(count) : : "memory", "cc");
        sum += count;
    }
    return sum;
}

static int ends[2];
static uint64_t calls(int round) {
    uint64_t sum = 0;
    for (int k = 1; k < 60; k++) { // buffers anywhere: the kernel does not mind
        long bytes = k * 7;
        sum += (uint64_t)call3(SYS_write, ends[1], (long)&shared.b[k * 11 + round], bytes);
        sum += (uint64_t)call3(SYS_read, ends[0], (long)&shared.b[k * 53 + round], bytes);
        sum += (uint64_t)(call3(SYS_getppid, 0, 0, 0) > 0);
    }
    void *at = (void *)call6(SYS_mmap, 0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int k = 0; k < 1024; k++) ((volatile uint64_t *)at)[k] = (uint64_t)k;
    call3(SYS_munmap, (long)at, 8192, 0);
    return sum + (uint64_t)is_checking();
}

static volatile int handled, handled_checking;
static void on_signal(int signal, siginfo_t *info, void *context) {
    (void)info, (void)context;
    handled_checking += is_checking();
    for (int k = handled % 5; k < BYTES / 8; k += 23) shared.q[k]++;
    if (++handled % 2) call3(SYS_tgkill, call3(SYS_getpid, 0, 0, 0), call3(SYS_gettid, 0, 0, 0), SIGUSR2);
    (void)signal;
}
static uint64_t signals(int round) {
    uint64_t sum = 0;
    for (int k = 0; k < 20; k++) {
        call3(SYS_tgkill, call3(SYS_getpid, 0, 0, 0), call3(SYS_gettid, 0, 0, 0), SIGUSR1);
        for (int i = round; i < BYTES / 4; i += 41) sum += shared.d[i]++;
        sum += (uint64_t)is_checking();
    }
    return sum;
}

// Between any two instructions: handlers begin with the flags that the program had.
static volatile int ticks, wrong_ticks;
static void on_tick(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    greg_t flags = ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];
    wrong_ticks += is_checking() != ((flags & ALIGNMENT) != 0);
    ticks++;
}
static void tick_every(int microseconds) {
    struct itimerval often = {{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &often, NULL);
}

// Code of many forms that is met here for the first time, and calls through tables.
#define STEP(n) static __attribute__((noinline)) uint64_t step##n(uint64_t x) { return shared.q[(x * n + n) % (BYTES / 8)] += x ^ n; }
STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7) STEP(8)
static uint64_t (*const volatile steps[])(uint64_t) = {step1, step2, step3, step4, step5, step6, step7, step8};
static uint64_t branches(int round) {
    uint64_t sum = (uint64_t)round;
    for (int k = 0; k < 2000; k++) sum += steps[(sum + (uint64_t)k) % 8](sum);
    return sum;
}

__attribute__((target("avx2"))) static uint64_t gather(int round) {
    static _Alignas(64) char area[8192];
    static _Alignas(32) uint32_t indices[8] = {0, 17, 34, 51, 68, 85, 1023, 1024};
    uint64_t sum = 0;
    for (int k = round; k < 900; k += 13) {
        uint32_t out[8];
        __asm__ volatile("vpcmpeqd %%ymm0, %%ymm0, %%ymm0\n\tvmovdqa %2, %%ymm1\n\t"
                         "vpgatherdd %%ymm0, (%1, %%ymm1, 4), %%ymm2\n\tvmovdqu %%ymm2, %0\n\t"
                         : "=m"(out)
                         : "r"(&shared.d[k]), "m"(indices)
                         : "xmm0", "xmm1", "xmm2", "memory");
        sum += out[k % 8];
        __asm__ volatile("vpcmpeqd %%ymm0, %%ymm0, %%ymm0\n\tvpmaskmovd %%ymm0, %%ymm0, (%0)" : : "r"(&shared.d[k & ~7]) : "xmm0", "memory");
        uint32_t low = 7, high = 0;
        __asm__ volatile("xsave64 (%0)\n\txrstor64 (%0)" : : "r"(area), "a"(low), "d"(high) : "memory");
    }
    return sum;
}
static uint64_t elements(int round) { return __builtin_cpu_supports("avx2") ? gather(round) : 0; }

static uint64_t (*const parts[])(int) = {plain, atomics, strings, calls, signals, branches, elements};
static const char *const names[] = {"plain", "atomics", "strings", "calls", "signals", "branches", "elements"};
enum { PARTS = sizeof parts / sizeof *parts, ROUNDS = 4, THREADS = 3 };

static uint64_t sums[THREADS][PARTS];
static void *take_turns(void *argument) {
    int me = (int)(intptr_t)argument;
    check_alignment();
    for (uint32_t step = 0; step < PARTS * ROUNDS; step++) {
        wait_for(step * THREADS + (uint32_t)me);
        sums[me][step % PARTS] += parts[step % PARTS]((int)step);
        pass(step * THREADS + (uint32_t)me + 1);
    }
    check_nothing();
    return NULL;
}

// Many short-lived threads, more than share a word of the shadow, a few at once; each finds what
// others, gone since, have read and written. They begin, work and end with the checks on.
static uint8_t stacks[8][1 << 14] __attribute__((aligned(4096)));
static volatile uint32_t lives[8]; // cleared by the kernel when the thread is gone
static _Noreturn void live(void) {
    for (int k = 0; k < BYTES / 8; k += 5) __atomic_fetch_add(&shared.q[k], 1, __ATOMIC_RELAXED);
    for (;;) call3(SYS_exit, 0, 0, 0);
}
static void start(int k) {
    const long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
    long *top = (long *)(stacks[k] + sizeof stacks[k] - 64);
    *top = (long)live;
    lives[k] = 1;
    // The child returns into `live`.
    register long tid __asm__("r10") = (long)&lives[k];
    register long tls __asm__("r8") = 0;
    long result = SYS_clone;
    __asm__ volatile("syscall\n\ttestq %%rax, %%rax\n\tjnz 1f\n\tretq\n1:"
                     : "+a"(result)
                     : "D"(flags), "S"(top), "d"(0l), "r"(tid), "r"(tls)
                     : "rcx", "r11", "memory");
    if (result < 0) call3(SYS_exit_group, 9, 0, 0);
}
static void come_and_go(void) {
    for (int first = 0; first < 160; first += 8) {
        for (int k = 0; k < 8; k++) start(k);
        for (int k = 0; k < 8; k++)
            while (lives[k]) call6(SYS_futex, (long)&lives[k], FUTEX_WAIT, 1, 0, 0, 0);
        for (int k = 0; k < BYTES / 8; k += 3) shared.q[k]++;
    }
}

// Accesses of the program that are misaligned: where they fault, and what the handler is told.
extern char misaligned[], misaligned_end[];
__asm__(".text\n"
        "misaligned:\n"
        "  movl (%rdi), %eax\n  ret\n  .p2align 4\n"
        "  movq %rax, (%rdi)\n  ret\n  .p2align 4\n"
        "  incw (%rdi)\n  ret\n  .p2align 4\n"
        "  lock xaddl %eax, (%rdi)\n  ret\n  .p2align 4\n"
        "  movsq\n  ret\n  .p2align 4\n"
        "  pushq (%rdi)\n  popq %rax\n  ret\n  .p2align 4\n"
        "  movl 3(%rdi), %eax\n  ret\n  .p2align 4\n" // aligned: no fault
        "  xorl %eax, %eax\n1: addl (%rdi), %eax\n  addq $4, %rdi\n  decl %esi\n  jnz 1b\n  ret\n  .p2align 4\n"
        "  movb (%rdi), %al\n  movb 1(%rdi), %cl\n  movl 1(%rdi), %eax\n  ret\n  .p2align 4\n"
        "misaligned_end:\n");

static long found_at[8], found_code[8];
static int found;
static void on_fault(int signal, siginfo_t *info, void *context) {
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    check_nothing();
    if (found < 8) found_at[found] = r[REG_RIP] - (long)misaligned, found_code[found] = signal * 1000 + info->si_code * 10 + !info->si_addr;
    found++;
    r[REG_EFL] &= ~ALIGNMENT;
}
static void fault(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGBUS, &action, NULL);
    for (int round = 0; round < 3; round++)
        for (char *code = misaligned; code < misaligned_end; code += 16) {
            volatile uint8_t *at = &shared.b[320 + 1 + 64 * round];
            uint64_t rax = 1, rdi = (uint64_t)at, rsi = (code - misaligned) / 16 == 4 ? (uint64_t)other.q : 20, rcx = 0;
            int checking = 0;
            found = 0;
            check_alignment();
            __asm__ volatile("subq $128, %%rsp\n\tcall *%4\n\taddq $128, %%rsp" : "+a"(rax), "+D"(rdi), "+S"(rsi), "+c"(rcx) : "r"(code) : "memory", "cc");
            checking = is_checking();
            check_nothing();
            printf("%d: %d faults at %ld (%ld), then %d %lx %lx\n", (int)(code - misaligned), found, found_at[0],
                   found_code[0], checking, (unsigned long)rax, (unsigned long)(rdi - (uint64_t)at));
        }
}

// With no handler it ends the process, which was made with the checks on.
static void die(void) {
    int status = 0;
    signal(SIGBUS, SIG_DFL);
    check_alignment();
    long child = call6(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0);
    if (child == 0) {
        uint64_t sum = plain(1);
        *(volatile uint32_t *)&shared.b[4 * (sum & 1) + 2] = 1;
        call3(SYS_exit_group, 0, 0, 0);
    }
    check_nothing();
    if (child < 0 || waitpid((pid_t)child, &status, 0) != child) status = -1;
    printf("a child ends by signal %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

static void all_take_turns(void) {
    pthread_t threads[THREADS];
    for (intptr_t t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, take_turns, (void *)t);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    for (int p = 0; p < PARTS; p++)
        printf("%s: %lx %lx %lx\n", names[p], (long)sums[0][p], (long)sums[1][p], (long)sums[2][p]);
    printf("%d signals, %d with checks\n", handled, handled_checking);
}

static void handle(int signal, void (*handler)(int, siginfo_t *, void *)) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(signal, &action, NULL);
}

int main(int argc, char **argv) {
    handle(SIGUSR1, on_signal);
    handle(SIGUSR2, on_signal);
    handle(SIGALRM, on_tick);
    if (pipe(ends)) return 3;
    if (argc > 1 && !strcmp(argv[1], "turns")) {
        all_take_turns();
        printf("region shared %p %d\n", (void *)&shared, BYTES);
        return 0;
    }
    tick_every(300);
    all_take_turns();
    check_alignment();
    come_and_go();
    while (ticks < 100) call3(SYS_getppid, 0, 0, 0);
    check_nothing();
    tick_every(0);
    printf("%d handlers began with other flags\n", wrong_ticks);
    fault();
    die();
    return 0;
}
