// What handlers of faults and traps are told: the instruction, as address in si_addr and as program
// counter, of what is illegal, divides by 0, is a breakpoint, or touches what a debug register
// watches, whoever set that: another process that traces this one, or the program itself. Prints
// all of it, relative to the code.
//
// Arguments name the parts to run (`list` prints them all; without arguments, all run). Virtual
// machines on some processors never get past `int1`, or past a string instruction that touches
// watched memory: it traps again and again. The program then says so and exits with 3.
#define _GNU_SOURCE
#include <fenv.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

long traps(void), int1(void), searches(void), faults(void);
extern char watched[];
__asm__(".text\n"
        "traps:\n"
        "  movl $1, %eax\n"
        "  movl %eax, watched(%rip)\n"
        "  addl $2, %eax\n"
        "  int3\n"
        "  addl $4, %eax\n"
        "  .byte 0xcd, 3\n" // int3 in two bytes
        "  addl $8, %eax\n"
        "  ret\n"
        "int1:\n"
        "  movl $1, %eax\n"
        "  movl %eax, watched(%rip)\n"
        "  addl $2, %eax\n"
        "  .byte 0xf1\n" // the one-byte trap of debuggers in hardware
        "  addl $4, %eax\n"
        "  ret\n"
        // Strings that end where the watched bytes are.
        "searches:\n"
        "  leaq watched-16(%rip), %rdi\n"
        "  movl $64, %ecx\n"
        "  movl $1, %eax\n"
        "  repne scasb\n"
        "  leaq watched-16(%rip), %rdi\n"
        "  leaq watched-17(%rip), %rsi\n"
        "  movl $64, %ecx\n"
        "  repe cmpsb\n"
        "  movl %ecx, %eax\n"
        "  ret\n"
        "faults:\n"
        "  xorl %ecx, %ecx\n"
        "  movl $12, %eax\n"
        "  ud2\n"
        "  cltd\n"
        "  idivl %ecx\n"
        "  hlt\n"
        "  movl %eax, %ecx\n"
        "  ret\n"
        ".data\n"
        ".p2align 3\n"
        "  .fill 32\n"
        "watched: .quad 1\n"
        "  .fill 64\n"
        ".text\n");

enum { MAX = 64, STUCK = 3, PERF_EVENT = 6 };
static struct {
    int signal, code, trap;
    long pc, address;
} seen[MAX];
static int count;

static void on_signal(int signal, siginfo_t *info, void *context) {
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (count == MAX) {
        const char text[] = "an instruction traps again and again\n";
        if (write(2, text, sizeof text - 1)) _exit(STUCK);
    }
    if (count < MAX) {
        seen[count].signal = signal, seen[count].code = info->si_code, seen[count].trap = (int)r[REG_TRAPNO];
        seen[count].pc = r[REG_RIP] - (long)traps;
        // Of what somebody has sent, there is none.
        seen[count].address = info->si_code > 0 && info->si_addr ? (long)info->si_addr - (long)traps : 0;
    }
    count++;
    if (signal == SIGILL) r[REG_RIP] += 2;
    if (signal == SIGSEGV) r[REG_RIP] += 1;
    if (signal == SIGFPE) r[REG_RCX] = 3;
}

static void show(const char *what, long result) {
    printf("%s: %ld, %d signals:", what, result, count);
    for (int k = 0; k < count && k < MAX; k++) {
        printf(" (%d code %d", seen[k].signal, seen[k].code);
        // The kernel tells no number of a trap with the signals of an event: it stays what it was.
        if (seen[k].code > 0 && seen[k].code != PERF_EVENT) printf(" trap %d", seen[k].trap);
        if (seen[k].code > 0) printf(" at %ld, %ld", seen[k].pc, seen[k].address);
        printf(")");
    }
    printf("\n");
    count = 0;
}

static void repeat(const char *what, long (*code)(void)) {
    for (int k = 0; k < 3; k++) show(what, code());
}

// The child runs with a debug register on `watched`, set by its parent, and handles the signals.
static void traced(const char *what, long (*code)(void), long kind) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        repeat(what, code);
        fflush(stdout);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    const long enable = 1, four_bytes = 3 << 18;
    ptrace(PTRACE_POKEUSER, child, offsetof(struct user, u_debugreg[0]), watched);
    ptrace(PTRACE_POKEUSER, child, offsetof(struct user, u_debugreg[7]), enable | kind << 16 | four_bytes);
    int signal = 0;
    while (!ptrace(PTRACE_CONT, child, 0, (long)signal) && waitpid(child, &status, 0) == child && WIFSTOPPED(status))
        signal = WSTOPSIG(status);
    if (WIFEXITED(status) && WEXITSTATUS(status) == STUCK) exit(STUCK);
    printf("the child ends with %x\n", status);
}

// The program watches itself.
static void watching(const char *what, long (*code)(void), unsigned kind) {
    struct perf_event_attr event = {.type = PERF_TYPE_BREAKPOINT, .size = sizeof event, .bp_type = kind,
                                    .bp_addr = (uintptr_t)watched, .bp_len = 4, .sample_period = 1,
                                    .exclude_kernel = 1, .exclude_hv = 1, .sigtrap = 1, .remove_on_exec = 1};
    int fd = (int)syscall(SYS_perf_event_open, &event, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    repeat(what, code);
    close(fd);
}

// What somebody has sent.
static void sent(const char *what) {
    raise(SIGTRAP);
    show(what, 0);
    sigqueue(getpid(), SIGTRAP, (union sigval){.sival_int = 5});
    show(what, 0);
}

static const struct part {
    const char *name;
    long (*code)(void);
    enum { ALONE, TRACED, WATCHED } how;
    enum { WRITES = 1, ACCESSES = 3 } watch;
} parts[] = {
    {"faults", faults, ALONE, 0},
    {"sent", NULL, ALONE, 0},
    {"traps", traps, ALONE, 0},
    {"traps-traced", traps, TRACED, WRITES},
    {"traps-watched", traps, WATCHED, WRITES},
    {"int1", int1, ALONE, 0},
    {"int1-traced", int1, TRACED, WRITES},
    {"int1-watched", int1, WATCHED, WRITES},
    {"searches", searches, ALONE, 0},
    {"searches-traced", searches, TRACED, ACCESSES},
    {"searches-watched", searches, WATCHED, ACCESSES},
};

static void run(const struct part *part) {
    if (!part->code) {
        sent(part->name);
    } else if (part->how == TRACED) {
        traced(part->name, part->code, part->watch);
    } else if (part->how == WATCHED) {
        watching(part->name, part->code, part->watch == WRITES ? HW_BREAKPOINT_W : HW_BREAKPOINT_RW);
    } else {
        repeat(part->name, part->code);
    }
}

int main(int argc, char **argv) {
    const int signals[] = {SIGTRAP, SIGILL, SIGFPE, SIGSEGV};
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    for (int k = 0; k < 4; k++) sigaction(signals[k], &action, NULL);
    const int is_list = argc == 2 && !strcmp(argv[1], "list");
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        int is_wanted = argc == 1;
        for (int n = 1; n < argc; n++) is_wanted |= !strcmp(argv[n], parts[k].name);
        if (is_list) puts(parts[k].name);
        if (is_wanted) run(&parts[k]);
    }
    return 0;
}
