// setjmp and longjmp in tight loops, contexts swapped by hand, tail calls through pointers,
// computed gotos and a callback from the C library.
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

static jmp_buf back;
static ucontext_t main_context, other_context;
static int swaps;

static __attribute__((noinline)) void deep(int depth) {
    if (depth == 0) longjmp(back, 5);
    deep(depth - 1);
}

static void other(void) {
    for (;;) {
        swaps++;
        swapcontext(&other_context, &main_context);
    }
}

static int compare(const void *a, const void *b) {
    return *(const int *)a < *(const int *)b ? -1 : *(const int *)a > *(const int *)b;
}

// A small machine run by computed gotos.
static long interpret(const unsigned char *code) {
    static void *operations[] = {&&increment, &&twice, &&loop, &&halt};
    long value = 0, turns = 0;
    const unsigned char *at = code;
    goto *operations[*at];
increment:
    value++;
    goto *operations[*++at];
twice:
    value = value * 2 % 1000003;
    goto *operations[*++at];
loop:
    at = ++turns < 100000 ? code : at + 1;
    goto *operations[*at];
halt:
    return value;
}

int main(void) {
    volatile int jumps = 0, result = 0;
    for (volatile int i = 0; i < 2000; i++) {
        int value = setjmp(back);
        if (value == 0) deep(i % 30);
        jumps++;
        result += value;
    }
    getcontext(&other_context);
    other_context.uc_stack.ss_sp = malloc(65536);
    other_context.uc_stack.ss_size = 65536;
    makecontext(&other_context, other, 0);
    for (int i = 0; i < 1000; i++) swapcontext(&main_context, &other_context);
    int numbers[1000];
    for (int i = 0; i < 1000; i++) numbers[i] = i * 7919 % 1009;
    qsort(numbers, 1000, sizeof *numbers, compare);
    printf("jumps %d result %d swaps %d middle %d machine %ld\n", jumps, result, swaps, numbers[500],
           interpret((const unsigned char[]){0, 1, 0, 2, 3}));
    return 0;
}
