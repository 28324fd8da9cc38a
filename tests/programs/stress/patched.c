// A program that patches its own code, as hooks and live updates do: `leaf` lies in a page that is
// rewritten, and the functions that jump to it lie in pages that stay. Before, it sets all
// registers that a caller may not rely on; afterwards it returns their sum, so whatever has been
// left in them by mistake is seen. At last other code is moved to where code has run. Prints the
// sums; exits with 1 if one is wrong.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

__asm__(".text\n"
        ".p2align 12\n"
        "jumps_there:\n"
        "  movl $1, %edx\n"
        "  movl $2, %ecx\n"
        "  movl $4, %esi\n"
        "  movl $8, %r8d\n"
        "  movl $16, %r9d\n"
        "  movl $32, %r10d\n"
        "  movl $64, %r11d\n"
        "  movl (%rdi), %eax\n"
        "  movl %eax, 64(%rdi)\n"
        "  jmp leaf\n"
        // From two exits of one block.
        ".p2align 4\n"
        "branches_there:\n"
        "  movl $1, %edx\n"
        "  movl $2, %ecx\n"
        "  movl $4, %esi\n"
        "  movl $8, %r8d\n"
        "  movl $16, %r9d\n"
        "  movl $32, %r10d\n"
        "  movl $64, %r11d\n"
        "  movl 128(%rdi), %eax\n"
        "  addl %eax, 192(%rdi)\n"
        "  testl %eax, %eax\n"
        "  je leaf\n"
        "  jmp leaf\n"
        ".p2align 12\n"
        "leaf:\n"
        "  xorl %edx, %edx\n"
        "  xorl %ecx, %ecx\n"
        "  xorl %esi, %esi\n"
        "  xorl %r8d, %r8d\n"
        "  xorl %r9d, %r9d\n"
        "  xorl %r10d, %r10d\n"
        "  xorl %r11d, %r11d\n"
        "  movl $1000, %eax\n"
        "  ret\n"
        ".p2align 12\n"
        "replacement:\n"
        "  leaq (%rdx,%rcx), %rax\n"
        "  addq %rsi, %rax\n"
        "  addq %r8, %rax\n"
        "  addq %r9, %rax\n"
        "  addq %r10, %rax\n"
        "  addq %r11, %rax\n"
        "  ret\n"
        "replacement_end:\n"
        ".p2align 12\n"
        "one:\n"
        "  movl $1, %eax\n"
        "  ret\n"
        ".p2align 12\n"
        "two:\n"
        "  movl $2, %eax\n"
        "  ret\n"
        ".p2align 12\n");

extern long jumps_there(int *), branches_there(int *);
extern char leaf[], replacement[], replacement_end[];
extern long one(void), two(void);

static int wrong;

static void check(const char *what, long got, long wanted) {
    printf("%s %ld\n", what, got);
    wrong |= got != wanted;
}

// Lines that the thread has not touched since, so that there is something to count.
static int *fresh(void) {
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

int main(void) {
    check("before", jumps_there(fresh()), 1000);
    check("before", branches_there(fresh()), 1000);
    if (mprotect(leaf, 4096, PROT_READ | PROT_WRITE | PROT_EXEC)) return 2;
    memcpy(leaf, replacement, replacement_end - replacement);
    if (mprotect(leaf, 4096, PROT_READ | PROT_EXEC)) return 2;
    check("after", jumps_there(fresh()), 127);
    check("after", branches_there(fresh()), 127);
    check("one", one(), 1);
    void *other = memcpy(fresh(), (void *)two, 64);
    if (mprotect(other, 4096, PROT_READ | PROT_EXEC)) return 2;
    if (mremap(other, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)one) != (void *)one) return 2;
    check("two in place of one", one(), 2);
    return wrong;
}
