// A program that sets the trap flag: it sees a SIGTRAP after each of its instructions, as debuggers
// see themselves stepped, and as programs that look for debuggers do. Prints where each trap found
// it, relative to the code that is stepped through, and what that code computes.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

// Sets the flag, touches memory, loops, calls, makes system calls, copies, and clears the flag.
__asm__(".text\n"
        "stepped:\n"
        "  push %rbx\n"
        "  xorl %ebx, %ebx\n"
        "  pushfq\n"
        "  orl $0x100, (%rsp)\n"
        "  popfq\n"
        "  addl (%rdi), %ebx\n"
        "  movl %ebx, 128(%rdi)\n"
        "  movl $3, %ecx\n"
        "1: addl 4(%rdi), %ebx\n"
        "  decl %ecx\n"
        "  jnz 1b\n"
        "  call helper\n"
        "  movl $39, %eax\n" // getpid: the kernel's alone
        "  syscall\n"
        "  subl %eax, %eax\n"
        "  movq %rdi, %r8\n"
        "  xorl %edi, %edi\n"
        "  movl $12, %eax\n" // brk: looked at
        "  syscall\n"
        "  movq %r8, %rdi\n"
        "  movl $39, %eax\n"
        "  syscall\n"
        "  testq %rax, %rax\n"
        "  setg %al\n"
        "  movzbl %al, %eax\n"
        "  addl %eax, %ebx\n"
        "  leaq 64(%rdi), %rsi\n"
        "  movl $5, %ecx\n"
        "  rep movsb\n"
        "  pushfq\n"
        "  andl $~0x100, (%rsp)\n"
        "  popfq\n"
        "  addl $1000, %ebx\n"
        "  movl %ebx, %eax\n"
        "  pop %rbx\n"
        "  ret\n"
        "helper:\n"
        "  addl 8(%rdi), %ebx\n"
        "  ret\n"
        // The same up to a system call that comes first.
        "call_first:\n"
        "  movl $39, %eax\n"
        "  pushfq\n"
        "  orl $0x100, (%rsp)\n"
        "  popfq\n"
        "  syscall\n"
        "  movl (%rdi), %eax\n"
        "  pushfq\n"
        "  andl $~0x100, (%rsp)\n"
        "  popfq\n"
        "  ret\n");

extern int stepped(int *), call_first(int *);

enum { MAX = 4096 };
static long found[MAX];
static int count, told, others;
static long stop_at;

static void on_trap(int signal, siginfo_t *info, void *context) {
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (count < MAX) found[count] = r[REG_RIP] - (long)stepped;
    // Some virtual machines forget now and then to say that it was the flag; the kernel then says
    // another.
    const int is_trap = info->si_code == TRAP_TRACE || info->si_code == TRAP_BRKPT || info->si_code == TRAP_HWBKPT;
    if (!is_trap || (long)info->si_addr != r[REG_RIP]) others++;
    told += info->si_code == TRAP_TRACE;
    if (++count == stop_at) r[REG_EFL] &= ~0x100ul;
    others += (signal != SIGTRAP);
}

// Makes its caller step from here on.
static void on_user(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] |= 0x100;
}

static void show(const char *what, long result) {
    const char *whose = 2 * told > count ? "its own" : "unknown";
    printf("%s: %ld, %d traps, %s, %d others:", what, result, count, whose, others);
    for (int k = 0; k < count && k < MAX; k++) printf(" %ld", found[k]);
    printf("\n");
    count = told = others = 0;
}

static int data[64] = {1, 10, 100};

static void *in_thread(void *unused) {
    long sum = 0;
    for (int k = 0; k < 20; k++) sum += stepped(data);
    show("thread", sum);
    return unused;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    action.sa_sigaction = on_user;
    sigaction(SIGUSR1, &action, NULL);
    for (int k = 0; k < 3; k++) show("stepped", stepped(data));
    show("call first", call_first(data));
    // The handler takes the flag away in the middle.
    for (stop_at = 1; stop_at < 30; stop_at += 3) show("stopped", stepped(data));
    stop_at = 0;
    // A handler sets it for the code that it came in between of.
    stop_at = 40;
    syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1);
    for (volatile int k = 0; k < 100; k++) data[20] += k;
    printf("set by a handler: %d traps, %d\n", count, data[20]);
    count = told = 0, stop_at = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, NULL);
    pthread_join(thread, NULL);
    printf("%d %d\n", data[32], memcmp(data, data + 16, 5));
    return 0;
}
