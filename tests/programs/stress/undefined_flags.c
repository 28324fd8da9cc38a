// Flags that the manuals call undefined: each processor leaves them as they were or gives them new
// values, and programs that test instruction sets look at that. Each instruction here stands among
// loads and stores, at which an engine has something to do. Prints what it leaves of flags that
// were all set, all clear, or all set but the overflow or the carry.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { ARITHMETIC = 0x8d5, WORDS = 64, STEPS = 512 };

// Runs the instruction with these flags, among accesses to lines that nobody has touched yet, so
// that there is something to count. Returns the flags.
#define FORM(name, instruction)                                                                            \
    uint64_t form_##name(uint64_t *lines, uint64_t flags);                                                 \
    __asm__(".text\n"                                                                                      \
            "form_" #name ":\n"                                                                            \
            "  mov $0x123456789abcdef1, %rax\n mov $19, %edx\n mov $0x76543, %ecx\n"                       \
            "  mov $5, %r8d\n xor %r9d, %r9d\n"                                                            \
            "  push %rsi\n popfq\n"                                                                        \
            "  mov (%rdi), %r10\n"                                                                         \
            "  " instruction "\n"                                                                          \
            "  mov %r10, 64(%rdi)\n"                                                                       \
            "  mov 128(%rdi), %r10\n"                                                                      \
            "  pushfq\n pop %rax\n"                                                                        \
            "  ret\n");

#define FORMS(F)                                                                                           \
    F(bt, "bt %rcx, %rax") F(bts, "bts %r8, %rax") F(btr, "btr $7, %rax") F(btc, "btc $9, %eax")           \
    F(bt_mem, "bt %rdx, 192(%rdi)") F(bts_mem, "bts %rdx, 192(%rdi)") F(btr_mem, "btrq $3, 192(%rdi)")     \
    F(lock_btc, "lock btcl $3, 192(%rdi)") F(bsf, "bsf %rcx, %r10") F(bsr, "bsr %rcx, %r10")               \
    F(bsf_0, "bsf %r9, %r11") F(bsf_mem, "bsf 192(%rdi), %r11") F(mul, "mul %rcx") F(mul8, "mul %cl")      \
    F(mul_mem, "mulq 192(%rdi)") F(imul1, "imul %ecx") F(imul2, "imul %rcx, %rax")                         \
    F(imul3, "imul $77, %ecx, %eax") F(imul_mem, "imul 192(%rdi), %rax") F(div8, "mov $77, %ax\n div %r8b") \
    F(div, "mov $0, %edx\n div %rcx") F(div_mem, "movq $9, 192(%rdi)\n mov $0, %edx\n divq 192(%rdi)")     \
    F(idiv, "mov $0, %edx\n mov $999, %eax\n idiv %ecx") F(and, "and %rcx, %rax") F(or, "or %rcx, %rax")   \
    F(xor, "xor %rcx, %rax") F(test, "test %rcx, %rax") F(test_mem, "test %rcx, 192(%rdi)")                \
    F(shl, "shl $5, %rax") F(shl1, "shl $1, %rax") F(shr, "shr $5, %eax") F(sar, "sar $7, %rax")           \
    F(shl_cl, "shl %cl, %rax") F(shl8, "shl $20, %al") F(shr_mem, "shrq $3, 192(%rdi)")                    \
    F(shld, "shld $5, %rcx, %rax") F(shrd_cl, "shrd %cl, %rdx, %rax") F(shld_mem, "shld $9, %rcx, 192(%rdi)") \
    F(rol, "rol $5, %rax") F(ror, "ror $5, %rax") F(rcl, "rcl $5, %rax") F(rcr_mem, "rcrq $3, 192(%rdi)")  \
    F(rol_cl, "rol %cl, %rax") F(rcl_none, "rclw $17, 192(%rdi)") F(rcl8_none, "rcl $9, %al")              \
    F(cmpxchg8b, "cmpxchg8b 192(%rdi)") F(bswap, "bswap %rax") F(xadd, "xadd %rax, 192(%rdi)")

#define BIT_FORMS(F)                                                                                       \
    F(tzcnt, "tzcnt %rcx, %rax") F(lzcnt, "lzcnt %rcx, %rax") F(tzcnt_mem, "tzcnt 192(%rdi), %rax")        \
    F(popcnt, "popcnt %rcx, %rax") F(andn, "andn %rcx, %rax, %r11") F(bextr, "bextr %rcx, %rax, %r11")     \
    F(blsr, "blsr %rcx, %rax") F(blsi, "blsi %rcx, %rax") F(blsmsk, "blsmsk %rcx, %rax")                   \
    F(bzhi, "bzhi %r8, %rax, %r11") F(mulx, "mulx %rcx, %r10, %r11") F(andn_mem, "andn 192(%rdi), %rax, %r11")

FORMS(FORM)
BIT_FORMS(FORM)

static uint64_t *next_lines;

static void show(const char *name, uint64_t (*form)(uint64_t *, uint64_t)) {
    static const uint64_t starts[] = {ARITHMETIC, 0, ARITHMETIC & ~0x800, ARITHMETIC & ~1};
    printf("%s:", name);
    for (int k = 0; k < 4; k++) {
        next_lines[24] = 0x8000000000000042;
        printf(" %03lx", (unsigned long)(form(next_lines, 0x202 | starts[k]) & ARITHMETIC));
        next_lines += WORDS;
    }
    printf("\n");
}

int main(void) {
    next_lines = aligned_alloc(64, STEPS * WORDS * sizeof *next_lines);
#define SHOW(name, instruction) show(#name, form_##name);
    FORMS(SHOW)
    if (__builtin_cpu_supports("bmi2") && __builtin_cpu_supports("lzcnt")) {
        BIT_FORMS(SHOW)
    }
    return 0;
}
