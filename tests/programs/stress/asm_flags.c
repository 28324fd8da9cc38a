// Hand-written assembly that returns and passes flags, as x264's does, and that leaves them alone,
// as Go's routines that zero memory do. Each function touches lines of memory that the thread has
// not touched before, so that there is something to count before it leaves.
#include <pthread.h>
#include <stdio.h>

// rdi: what is looked at. Returns "equal" if the bytes at rdi and rdi+64 are; al is never set.
__asm__(".text\n"
        ".p2align 4\n"
        "returns_equal:\n"
        "  movzbl 64(%rdi), %edx\n"
        "  cmpb (%rdi), %dl\n"
        "  movl %edx, 128(%rdi)\n"
        "  movl 192(%rdi), %edx\n"
        "  ret\n"
        // The same by way of another function's return.
        "returns_equal_through:\n"
        "  call returns_equal\n"
        "  movl %edx, 256(%rdi)\n"
        "  ret\n"
        // Takes the carry: writes it to 320(%rdi).
        "takes_carry:\n"
        "  movl 320(%rdi), %edx\n"
        "  movl $0, %edx\n"
        "  adcl $0, %edx\n"
        "  movl %edx, 320(%rdi)\n"
        "  ret\n"
        // The same after many instructions that set no flags, and by way of a pointer to it.
        "takes_carry_late:\n"
        "  .rept 100\n"
        "  paddb %xmm1, %xmm0\n"
        "  .endr\n"
        "  jmp takes_carry\n"
        "set_carry_for:\n"
        "  stc\n"
        "  call *%rax\n"
        "  ret\n"
        // Leaves the flags of its caller alone.
        "keeps_flags:\n"
        "  movq %rdi, 448(%rdi)\n"
        "  ret\n"
        ".globl assembly_calls\n"
        ".type assembly_calls, @function\n"
        // Returns bit 0: equal; bit 1: equal, through another function; bits 2 and 3: the carry
        // came through at once and late; bit 4: one that is always set, to where a pointer leads;
        // bit 5: "above" came through a call that leaves flags alone.
        "assembly_calls:\n"
        "  push %rbx\n"
        "  xorl %ebx, %ebx\n"
        "  call returns_equal\n"
        "  jne 1f\n"
        "  orl $1, %ebx\n"
        "1: call returns_equal_through\n"
        "  movl $2, %ecx\n"
        "  jne 2f\n"
        "  orl %ecx, %ebx\n"
        "2: cmpb $7, 384(%rdi)\n" // carry: less than 7
        "  call takes_carry\n"
        "  movl 320(%rdi), %edx\n"
        "  leal (%rbx, %rdx, 4), %ebx\n"
        "  cmpb $5, 448(%rdi)\n" // carry: less than 5
        "  call takes_carry_late\n"
        "  movl 320(%rdi), %edx\n"
        "  leal (%rbx, %rdx, 8), %ebx\n"
        "  movl $0, 320(%rdi)\n"
        "  leaq takes_carry_late(%rip), %rax\n"
        "  call set_carry_for\n"
        "  imull $16, 320(%rdi), %edx\n"
        "  leal (%rbx, %rdx), %ebx\n"
        "  cmpb $4, 384(%rdi)\n"
        "  leaq 64(%rdi), %rdi\n"
        "  call keeps_flags\n"
        "  leaq 8(%rdi), %rdi\n"
        "  seta %al\n"
        "  movzbl %al, %eax\n"
        "  shll $5, %eax\n"
        "  leal (%rbx, %rax), %eax\n"
        "  pop %rbx\n"
        "  ret\n"
        ".size assembly_calls, .-assembly_calls\n");

int assembly_calls(unsigned char *bytes);

enum { RECORD = 576, RECORDS = 2000 };
static unsigned char records[RECORDS * RECORD] __attribute__((aligned(64)));

static void *work(void *result) {
    unsigned long sum = 0;
    for (int k = 0; k < RECORDS; k++)
        sum = sum * 31 + (unsigned)assembly_calls(records + k * RECORD);
    *(unsigned long *)result = sum;
    return 0;
}

int main(void) {
    for (int k = 0; k < RECORDS; k++) {
        records[k * RECORD] = (unsigned char)(k % 3);
        records[k * RECORD + 64] = (unsigned char)(k % 2);
        records[k * RECORD + 384] = (unsigned char)(k % 11);
        records[k * RECORD + 448] = (unsigned char)(k % 13);
    }
    for (int round = 0; round < 3; round++) {
        unsigned long result;
        pthread_t thread;
        pthread_create(&thread, 0, work, &result);
        pthread_join(thread, 0);
        printf("%lx\n", result);
    }
    return 0;
}
