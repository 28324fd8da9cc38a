// What instrumentation finds hard, with known truth: in each mode thread 1 writes every block of a
// region in some special way, then thread 2 reads every block. Prints `region NAME ADDRESS BYTES`
// and `expect KIND FROM TO COUNT` of what happens in that region and nowhere else.
//
// Usage: traps MODE [LIBRARY]. `traps list` prints the modes.
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/eventfd.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { BLOCKS = 128, BYTES = BLOCKS * 64 };

typedef struct {
    _Alignas(64) volatile uint64_t word[8];
} Block;

static _Alignas(4096) Block shared[BLOCKS];
static Block *region = shared; // what thread 1 writes and thread 2 reads
static const char *library;
static int go[3], done;

static void wait_for(int fd) {
    uint64_t value;
    while (read(fd, &value, 8) != 8)
        if (errno != EINTR) _exit(3);
}

static void post(int fd) {
    uint64_t one = 1;
    while (write(fd, &one, 8) != 8)
        if (errno != EINTR) _exit(3);
}

static void fail(const char *what) {
    perror(what);
    _exit(4);
}

static void write_block(int k) { region[k].word[k % 8] = (uint64_t)k + 1; }

static void write_all(void) {
    for (int k = 0; k < BLOCKS; k++) write_block(k);
}

static int sets_by_instruction;

static void set_gs(void *base) {
    if (sets_by_instruction)
        __asm__ volatile("wrgsbase %0" : : "r"(base) : "memory");
    else
        syscall(SYS_arch_prctl, ARCH_SET_GS, base);
}

// Relative to a base of %gs that changes between two writes by the same register.
static void by_gs(void) {
    sets_by_instruction = (getauxval(AT_HWCAP2) & 2) != 0;
    for (uint64_t k = 0; k < BLOCKS; k += 2) {
        uint64_t at = 64 * k;
        set_gs((char *)region - 4096);
        __asm__ volatile("movq %0, %%gs:4104(%0)" : : "r"(at) : "memory");
        set_gs((char *)region - 4032);
        __asm__ volatile("movq %0, %%gs:4096(%0)" : : "r"(at) : "memory");
        set_gs((char *)region + 16);
        __asm__ volatile("movq %0, %%gs:(,%0,8)" : : "r"(at / 8) : "memory");
    }
}

// The kernel's code in our address space.
static void by_vdso(void) {
    for (int k = 0; k < BLOCKS; k++) clock_gettime(CLOCK_MONOTONIC, (struct timespec *)(void *)&region[k]);
}

#define TLS(model) __thread __attribute__((tls_model(model))) Block
static TLS("local-exec") local_exec[BLOCKS];
TLS("initial-exec") initial_exec[BLOCKS];
static TLS("local-dynamic") local_dynamic[BLOCKS];
TLS("global-dynamic") global_dynamic[BLOCKS];

static void by_local_exec(void) {
    for (int k = 0; k < BLOCKS; k++) local_exec[k].word[1] = 1;
    region = local_exec;
}
static void by_initial_exec(void) {
    for (int k = 0; k < BLOCKS; k++) initial_exec[k].word[1] = 1;
    region = initial_exec;
}
static void by_local_dynamic(void) {
    for (int k = 0; k < BLOCKS; k++) local_dynamic[k].word[1] = 1;
    region = local_dynamic;
}
static void by_global_dynamic(void) {
    for (int k = 0; k < BLOCKS; k++) global_dynamic[k].word[1] = 1;
    region = global_dynamic;
}

static void *symbol(void *handle, const char *name) {
    void *found = handle ? dlsym(handle, name) : NULL;
    if (!found) {
        fprintf(stderr, "%s\n", dlerror());
        _exit(4);
    }
    return found;
}

// Thread-local storage of a library that is loaded late: allocated when first touched.
static void by_late_tls(void) {
    void *(*fill)(int) = (void *(*)(int))symbol(dlopen(library, RTLD_NOW), "fill_tls");
    region = fill(BLOCKS);
}

// A function chosen at load time.
static void fill_one_way(Block *b) { b->word[2] = 5; }
static void fill_other_way(Block *b) { b->word[3] = 6; }
static void (*choose(void))(Block *) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") ? fill_one_way : fill_other_way;
}
static void fill_by_choice(Block *b) __attribute__((ifunc("choose")));
static void by_ifunc(void) {
    for (int k = 0; k < BLOCKS; k++) fill_by_choice(&region[k]);
}

static void by_longjmp(void) {
    static jmp_buf back;
    volatile int k = 0;
    if (setjmp(back) < BLOCKS && k < BLOCKS) {
        write_block(k);
        longjmp(back, ++k);
    }
}

static sigjmp_buf out_of_handler;
static volatile int next;
static void jump_out(int signal) {
    (void)signal;
    write_block(next);
    siglongjmp(out_of_handler, 1);
}
// Half of the blocks in handlers that never return, the others afterwards.
static void by_siglongjmp(void) {
    signal(SIGUSR1, jump_out);
    for (next = 0; next < BLOCKS / 2; next++)
        if (!sigsetjmp(out_of_handler, 1)) raise(SIGUSR1);
    for (int k = BLOCKS / 2; k < BLOCKS; k++) write_block(k);
}

static void inner(int signal) {
    (void)signal;
    write_block(next);
}
static void outer(int signal) {
    (void)signal;
    write_block(next);
    next++;
    raise(SIGUSR2);
}
// A handler on a stack of its own, in which another signal is handled.
static void by_nested_handlers(void) {
    static char stack[1 << 16];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction first = {.sa_handler = outer, .sa_flags = SA_ONSTACK};
    struct sigaction second = {.sa_handler = inner, .sa_flags = SA_ONSTACK};
    if (sigaltstack(&alternate, NULL)) fail("sigaltstack");
    sigaction(SIGUSR1, &first, NULL);
    sigaction(SIGUSR2, &second, NULL);
    for (next = 0; next < BLOCKS; next++) raise(SIGUSR1);
}

static void allow(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    void *page = (void *)((uintptr_t)info->si_addr & ~4095ul);
    if (mprotect(page, 4096, PROT_READ | PROT_WRITE)) _exit(5);
}
// Every page faults at its first store, which is done again.
static void by_fault(void) {
    struct sigaction action = {.sa_sigaction = allow, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    if (mprotect((void *)region, BYTES, PROT_NONE)) fail("mprotect");
    write_all();
}

static void go_on(int signal) {
    (void)signal;
    next++;
}
// A breakpoint before each block: the program goes on behind it.
static void by_breakpoints(void) {
    signal(SIGTRAP, go_on);
    for (next = 0; next < BLOCKS;) {
        write_block(next);
        __asm__ volatile("int3");
    }
}

static void skip_instruction(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2; // length of ud2
    write_block(next);
}
// An instruction that there is not, which the handler skips.
static void by_skipped_instructions(void) {
    struct sigaction action = {.sa_sigaction = skip_instruction, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &action, NULL);
    for (next = 0; next < BLOCKS; next++) __asm__ volatile("ud2");
}

static volatile int ticks;
static void tick(int signal) {
    (void)signal;
    ticks++;
}
// Under a storm of timers, of real and of CPU time.
static void by_timers(void) {
    struct itimerval often = {{0, 500}, {0, 500}}, off = {{0, 0}, {0, 0}};
    const int kinds[3] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};
    const int signals[3] = {SIGALRM, SIGVTALRM, SIGPROF};
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    for (int k = 0; k < 3; k++) sigaction(signals[k], &action, NULL);
    for (int k = 0; k < 3; k++) setitimer(kinds[k], &often, NULL);
    while (ticks < 30) write_all();
    for (int k = 0; k < 3; k++) setitimer(kinds[k], &off, NULL);
    write_all();
}

static __attribute__((noinline)) uint64_t scramble(uint64_t value) {
    __asm__ volatile("" : "+r"(value));
    return value * 2654435761u;
}
// Signals between any two instructions, those behind returns and indirect calls among them: results
// must survive.
static void by_interrupted_returns(void) {
    struct itimerval often = {{0, 300}, {0, 300}}, off = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    uint64_t (*volatile indirect)(uint64_t) = scramble;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (uint64_t k = 0; ticks < 1500; k++)
        if (scramble(k) != k * 2654435761u || indirect(k) != k * 2654435761u) _exit(6);
    setitimer(ITIMER_REAL, &off, NULL);
    write_all();
}

// A process that shares nothing, made without the C library: it writes its own copy.
static void by_clone(void) {
    for (int round = 0; round < 4; round++) {
        long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (child == 0) {
            write_all();
            syscall(SYS_exit_group, 7);
        }
        int status;
        if (child < 0 || waitpid((pid_t)child, &status, 0) != child || WEXITSTATUS(status) != 7)
            fail("clone");
    }
    write_all();
}

static ucontext_t main_context, other_context;
static void coroutine(void) {
    for (;;) {
        write_block(next);
        swapcontext(&other_context, &main_context);
    }
}
static void by_coroutine(void) {
    static char stack[1 << 16];
    getcontext(&other_context);
    other_context.uc_stack.ss_sp = stack;
    other_context.uc_stack.ss_size = sizeof stack;
    makecontext(&other_context, coroutine, 0);
    for (next = 0; next < BLOCKS; next++) swapcontext(&main_context, &other_context);
}

// Code that is unloaded after each use, and comes back, while others run it too.
static void load_and_fill(Block *first, int from, int to) {
    for (int k = from; k < to; k++) {
        void *handle = dlopen(library, RTLD_NOW);
        ((void (*)(void *))symbol(handle, "fill_block"))(&first[k]);
        dlclose(handle);
    }
}
static void *disturb(void *unused) {
    static Block own[BLOCKS];
    load_and_fill(own, 0, BLOCKS);
    return unused;
}
static void by_unloaded_code(void) {
    pthread_t other;
    if (pthread_create(&other, NULL, disturb, NULL)) fail("pthread_create");
    load_and_fill(region, 0, BLOCKS);
    pthread_join(other, NULL);
}

// Memory that is given back and comes anew: what was there before does not count.
static void by_new_memory(void) {
    write_all();
    void *again = mmap((void *)region, BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (again != (void *)region) fail("mmap");
    for (int k = 0; k < BLOCKS; k += 2) write_block(k);
}

// The same with segments of System V shared memory.
static void *attach(const void *at) {
    int id = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600);
    void *got = shmat(id, at, 0);
    shmctl(id, IPC_RMID, NULL);
    if (got == (void *)-1) fail("shmat");
    return got;
}
static void by_new_segment(void) {
    region = attach(NULL);
    write_all();
    if (shmdt((void *)region)) fail("shmdt");
    attach((void *)region);
    for (int k = 0; k < BLOCKS; k += 2) write_block(k);
}

static void by_system_call(void) {
    int ends[2];
    if (pipe(ends) || fcntl(ends[1], F_SETPIPE_SZ, BYTES) < 0) fail("pipe");
    static char zeroes[BYTES];
    if (write(ends[1], zeroes, BYTES) != BYTES || read(ends[0], (void *)region, BYTES) != BYTES)
        fail("read");
}

static const struct {
    const char *name;
    void (*write)(void);
    int blocks; // that thread 2 finds written by thread 1
} modes[] = {{"plain", write_all, BLOCKS},
             {"vdso", by_vdso, BLOCKS},
             {"tls-local-exec", by_local_exec, BLOCKS},
             {"tls-initial-exec", by_initial_exec, BLOCKS},
             {"tls-local-dynamic", by_local_dynamic, BLOCKS},
             {"tls-global-dynamic", by_global_dynamic, BLOCKS},
             {"tls-late", by_late_tls, BLOCKS},
             {"gs", by_gs, BLOCKS},
             {"ifunc", by_ifunc, BLOCKS},
             {"longjmp", by_longjmp, BLOCKS},
             {"siglongjmp", by_siglongjmp, BLOCKS},
             {"nested-handlers", by_nested_handlers, BLOCKS},
             {"fault", by_fault, BLOCKS},
             {"breakpoints", by_breakpoints, BLOCKS},
             {"skipped-instructions", by_skipped_instructions, BLOCKS},
             {"timers", by_timers, BLOCKS},
             {"interrupted-returns", by_interrupted_returns, BLOCKS},
             {"clone", by_clone, BLOCKS},
             {"coroutine", by_coroutine, BLOCKS},
             {"unloaded-code", by_unloaded_code, BLOCKS},
             {"new-memory", by_new_memory, BLOCKS / 2},
             {"new-segment", by_new_segment, BLOCKS / 2},
             {"system-call", by_system_call, BLOCKS}};
enum { MODES = sizeof modes / sizeof *modes };

static int mode;

static void *writer(void *unused) {
    wait_for(go[1]);
    modes[mode].write();
    post(done);
    wait_for(go[1]); // keeps its thread-local storage
    return unused;
}

static void *reader(void *unused) {
    uint64_t sum = 0;
    wait_for(go[2]);
    for (int k = 0; k < BLOCKS; k++) sum += region[k].word[k % 8];
    post(done);
    return sum == 1 ? &done : unused;
}

// Code before main and after it belongs to the initial thread.
static Block before_main[BLOCKS], after_main[BLOCKS];
static int at_ends;
__attribute__((constructor)) static void fill_before_main(void) {
    for (int k = 0; k < BLOCKS; k++) before_main[k].word[0] = 1;
}
static uint64_t after_sum;
__attribute__((destructor)) static void read_after_main(void) {
    if (!at_ends) return;
    for (int k = 0; k < BLOCKS; k++) after_sum += after_main[k].word[0];
}

static void *between(void *unused) {
    uint64_t sum = 0;
    for (int k = 0; k < BLOCKS; k++) sum += before_main[k].word[0];
    for (int k = 0; k < BLOCKS; k++) after_main[k].word[0] = sum;
    return unused;
}

static int ends(void) {
    pthread_t thread;
    at_ends = 1;
    if (pthread_create(&thread, NULL, between, NULL)) return 3;
    pthread_join(thread, NULL);
    printf("region before %p %d\nregion after %p %d\n", (void *)before_main, BYTES, (void *)after_main, BYTES);
    printf("expect raw 0 1 %d\nexpect raw 1 0 %d\n", BLOCKS, BLOCKS);
    return 0;
}

static int find_mode(const char *name) {
    for (int k = 0; k < MODES; k++)
        if (!strcmp(modes[k].name, name)) return k;
    fprintf(stderr, "unknown mode '%s'\n", name);
    exit(2);
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "plain";
    library = argc > 2 ? argv[2] : NULL;
    if (!strcmp(name, "ends")) return ends();
    if (!strcmp(name, "list")) {
        for (int k = 0; k < MODES; k++) puts(modes[k].name);
        puts("ends");
        return 0;
    }
    mode = find_mode(name);
    done = eventfd(0, EFD_SEMAPHORE);
    pthread_t threads[3];
    void *(*const bodies[3])(void *) = {NULL, writer, reader};
    for (int t = 1; t < 3; t++) {
        go[t] = eventfd(0, EFD_SEMAPHORE);
        if (pthread_create(&threads[t], NULL, bodies[t], NULL)) return 3;
    }
    for (int t = 1; t < 3; t++) {
        post(go[t]);
        wait_for(done);
    }
    printf("region %s %p %d\n", name, (void *)region, BYTES);
    printf("expect raw 1 2 %d\n", modes[mode].blocks);
    post(go[1]);
    for (int t = 1; t < 3; t++) pthread_join(threads[t], NULL);
    return 0;
}
