// What a signal handler finds in the registers when it begins: the general ones as they were where
// the signal came, but for its arguments, %rax and %rsp; the flags too, but for direction and trap;
// x87 and vector registers as after a reset. And what the interrupted code finds when the handler,
// which has changed them, returns. Prints that for signals that come in a system call, by a fault,
// on an alternate stack, in a forked child, and at any time.
#define _GNU_SOURCE
#include <cpuid.h>
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

enum { XSAVE_BYTES = 4096, LEGACY = 512, UPPER = 576 };

// At entry: general registers in the order of their encoding, flags, then x87, vectors and masks.
uint64_t entry_general[17];
uint8_t entry_state[XSAVE_BYTES] __attribute__((aligned(64)));
uint32_t components;
void after_entry(int signal, siginfo_t *info, ucontext_t *context);
void entry(int signal, siginfo_t *info, void *context);
__asm__(".text\n"
        "entry:\n"
        "  mov %rax, entry_general(%rip)\n mov %rcx, entry_general+8(%rip)\n"
        "  mov %rdx, entry_general+16(%rip)\n mov %rbx, entry_general+24(%rip)\n"
        "  mov %rsp, entry_general+32(%rip)\n mov %rbp, entry_general+40(%rip)\n"
        "  mov %rsi, entry_general+48(%rip)\n mov %rdi, entry_general+56(%rip)\n"
        "  mov %r8, entry_general+64(%rip)\n mov %r9, entry_general+72(%rip)\n"
        "  mov %r10, entry_general+80(%rip)\n mov %r11, entry_general+88(%rip)\n"
        "  mov %r12, entry_general+96(%rip)\n mov %r13, entry_general+104(%rip)\n"
        "  mov %r14, entry_general+112(%rip)\n mov %r15, entry_general+120(%rip)\n"
        "  pushfq\n pop entry_general+128(%rip)\n"
        "  mov %rdx, %r12\n"
        "  mov components(%rip), %eax\n xor %edx, %edx\n"
        "  test %eax, %eax\n jz 1f\n"
        "  xsave64 entry_state(%rip)\n"
        "  jmp 2f\n"
        "1: fxsave64 entry_state(%rip)\n"
        "2: mov %r12, %rdx\n"
        // Other values in everything that the interrupted code may use.
        "  fld1\n fldpi\n"
        "  pcmpeqd %xmm0, %xmm0\n movdqa %xmm0, %xmm3\n movdqa %xmm0, %xmm7\n movdqa %xmm0, %xmm15\n"
        "  push %rbx\n push %rbp\n sub $8, %rsp\n"
        "  emms\n"
        "  call after_entry\n"
        "  add $8, %rsp\n pop %rbp\n pop %rbx\n"
        "  mov $-1, %r8\n mov %r8, %r9\n mov %r8, %r10\n mov %r8, %r11\n mov %r8, %r15\n"
        "  ret\n");

// Makes a system call, or, if the number is 0, faults, with known values in the registers, and
// stores what it finds there afterwards.
uint64_t interrupt(uint64_t number, uint64_t process, uint64_t signal, uint64_t *after);
extern char interrupt_fault[], interrupt_after[];
__asm__(".text\n"
        "interrupt:\n"
        "  push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n push %rcx\n"
        "  mov %rdi, %rax\n mov %rsi, %rdi\n mov %rdx, %rsi\n"
        "  mov $0x33333333, %ebx\n mov $0x55555555, %ebp\n mov $0x12345678, %edx\n"
        "  mov $0x80, %r8d\n mov $0x90, %r9d\n mov $0xa0, %r10d\n mov $0xc0, %r12d\n"
        "  mov $0xd0, %r13d\n mov $0xe0, %r14d\n mov $0xf0, %r15d\n"
        "  fninit\n fld1\n fldpi\n"
        "  movq %rbx, %xmm0\n pshufd $0, %xmm0, %xmm0\n movdqa %xmm0, %xmm3\n"
        "  movq %rbp, %xmm7\n pshufd $0x1b, %xmm7, %xmm7\n movdqa %xmm7, %xmm15\n"
        "  lea interrupt_after(%rip), %rcx\n mov $0xad7, %r11d\n"
        "  push $0xad7\n popfq\n"
        "  xchg %rax, %rcx\n"
        "  jrcxz interrupt_fault\n"
        "  xchg %rax, %rcx\n"
        "  syscall\n"
        "  jmp interrupt_after\n"
        "interrupt_fault:\n"
        "  mov %rbx, (%rcx)\n"
        "interrupt_after:\n"
        "  mov (%rsp), %rax\n"
        "  mov %rcx, 8(%rax)\n mov %rdx, 16(%rax)\n mov %rbx, 24(%rax)\n mov %rbp, 40(%rax)\n"
        "  mov %r8, 64(%rax)\n mov %r9, 72(%rax)\n mov %r10, 80(%rax)\n mov %r11, 88(%rax)\n"
        "  mov %r12, 96(%rax)\n mov %r13, 104(%rax)\n mov %r14, 112(%rax)\n mov %r15, 120(%rax)\n"
        "  pushfq\n pop 128(%rax)\n"
        "  paddd %xmm3, %xmm0\n paddd %xmm15, %xmm7\n pxor %xmm7, %xmm0\n movq %xmm0, 136(%rax)\n"
        "  faddp\n fistpl 32(%rax)\n"
        "  pop %rcx\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n"
        "  ret\n");

static volatile int faults;

void after_entry(int signal, siginfo_t *info, ucontext_t *context) {
    (void)info;
    greg_t *r = context->uc_mcontext.gregs;
    if (signal == SIGSEGV && r[REG_RIP] == (greg_t)interrupt_fault) {
        r[REG_RIP] = (greg_t)interrupt_after;
        faults++;
    }
}

// The state of x87, vectors and masks at entry, without what fxsave and xsave leave undefined.
static void show_state(void) {
    unsigned used = 0;
    uint32_t mxcsr;
    for (int k = 32; k < 416; k++) used += entry_state[k] != 0;
    for (int k = UPPER; components && k < XSAVE_BYTES; k++) used += entry_state[k] != 0;
    memcpy(&mxcsr, entry_state + 24, 4);
    printf("x87 %02x%02x %02x%02x %02x, MXCSR %x, %u bytes not 0\n", entry_state[1], entry_state[0],
           entry_state[3], entry_state[2], entry_state[4], mxcsr, used);
}

static void show_case(const char *name, uint64_t number, uint64_t process, uint64_t signal) {
    uint64_t after[18] = {0};
    memset(entry_state, 0, sizeof entry_state);
    memset(entry_general, 0, sizeof entry_general);
    interrupt(number, process, signal, after);
    printf("%s\n", name);
    for (int k = 0; k < 17; k++) {
        // The stack and what depends on it differ from run to run.
        if (k == 2 || k == 4 || k == 6) continue;
        const uint64_t at = entry_general[k] - (uint64_t)interrupt;
        if (at < 512)
            printf(" +%lx", (unsigned long)at);
        else
            printf(" %lx", (unsigned long)entry_general[k]);
    }
    printf(", stack %lu\n ", (unsigned long)(entry_general[4] & 15));
    show_state();
    printf(" afterwards:");
    for (int k = 2; k < 18; k++) printf(" %lx", (unsigned long)after[k]);
    printf("\n");
}

static void all_cases(const char *where) {
    printf("== %s\n", where);
    const uint64_t process = (uint64_t)getpid();
    show_case("a system call", SYS_kill, process, SIGUSR1);
    show_case("a fault", 0, process, SIGUSR1);
    show_case("a system call again", SYS_kill, process, SIGUSR1);
}

static void handle(int signal, int flags) {
    struct sigaction action = {.sa_flags = SA_SIGINFO | flags};
    action.sa_sigaction = entry;
    sigaction(signal, &action, 0);
}

static volatile uint64_t storm_signals, storm_wrong;
void in_storm(ucontext_t *context);
void storm_entry(int signal, siginfo_t *info, void *context);
void storm_loop(uint64_t *lines, uint64_t count);
extern char storm_start[], storm_end[];
// A loop over lines of memory that nobody has touched yet, with constants in all registers; at
// entry of its handler they are there, and the vectors are not.
__asm__(".text\n"
        "storm_loop:\n"
        "  push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
        "  mov %rsi, %rcx\n"
        "  mov $0x33333333, %ebx\n mov $0x55555555, %ebp\n mov $0x80, %r8d\n mov $0x90, %r9d\n"
        "  mov $0xa0, %r10d\n mov $0xb0, %r11d\n mov $0xc0, %r12d\n mov $0xd0, %r13d\n mov $0xe0, %r14d\n"
        "  mov $0xf0, %r15d\n"
        "  movq %rbx, %xmm5\n"
        "  stc\n"
        "storm_start:\n"
        "  mov (%rdi), %rax\n"
        "  mov %rbx, 64(%rdi)\n"
        "  lea 128(%rdi), %rdi\n"
        "  lea -1(%rcx), %rcx\n"
        "  jrcxz storm_end\n"
        "  jmp storm_start\n"
        "storm_end:\n"
        "  movq %xmm5, %rax\n"
        "  cmp %rax, %rbx\n je 1f\n"
        "  incq storm_wrong(%rip)\n"
        "1: pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n"
        "  ret\n"
        "storm_entry:\n"
        "  movq %xmm5, %rax\n test %rax, %rax\n jnz 2f\n"
        "  movq %xmm0, %rax\n test %rax, %rax\n jnz 2f\n"
        "  movq %xmm14, %rax\n test %rax, %rax\n jnz 2f\n"
        "  mov 168(%rdx), %rax\n" // the counter
        "  lea storm_start(%rip), %rsi\n cmp %rsi, %rax\n jb 1f\n"
        "  lea storm_end(%rip), %rsi\n cmp %rsi, %rax\n jae 1f\n"
        "  cmp $0x33333333, %rbx\n jne 2f\n cmp $0x55555555, %rbp\n jne 2f\n cmp $0x80, %r8\n jne 2f\n"
        "  cmp $0x90, %r9\n jne 2f\n cmp $0xa0, %r10\n jne 2f\n cmp $0xb0, %r11\n jne 2f\n"
        "  cmp $0xc0, %r12\n jne 2f\n cmp $0xd0, %r13\n jne 2f\n cmp $0xe0, %r14\n jne 2f\n"
        "  cmp $0xf0, %r15\n jne 2f\n"
        "  incq storm_signals(%rip)\n"
        "1: movq %rsp, %xmm5\n movq %rsp, %xmm0\n movq %rsp, %xmm14\n"
        "  ret\n"
        "2: incq storm_wrong(%rip)\n"
        "  jmp 1b\n");

static void storm(void) {
    enum { LINES = 1 << 16 };
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART};
    action.sa_sigaction = storm_entry;
    sigaction(SIGALRM, &action, 0);
    const struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, 0);
    while (storm_signals + storm_wrong < 300) {
        void *lines = mmap(0, LINES * 64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        storm_loop(lines, LINES / 2);
        munmap(lines, LINES * 64);
    }
    setitimer(ITIMER_REAL, &never, 0);
    printf("== at any time: %lu were wrong\n", (unsigned long)storm_wrong);
}

int main(void) {
    unsigned a, b, c, d;
    __cpuid(1, a, b, c, d);
    if (c & bit_OSXSAVE) components = 0xe7;
    handle(SIGUSR1, 0);
    handle(SIGSEGV, 0);
    all_cases("as usual");
    static uint8_t stack[1 << 16] __attribute__((aligned(4096)));
    const stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&alternate, 0);
    handle(SIGUSR1, SA_ONSTACK);
    handle(SIGSEGV, SA_ONSTACK);
    all_cases("on an alternate stack");
    fflush(stdout);
    if (!fork()) {
        all_cases("in a forked child");
        fflush(stdout);
        _exit(0);
    }
    wait(0);
    storm();
    return faults != 2 || storm_wrong;
}
