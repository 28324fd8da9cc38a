// Every way for an instruction to read or write memory, with known truth. Thread 1 writes LINES cache
// lines, thread 2 reads them; one of the two uses the form named on the command line, the other
// plain words. Whatever the form, each line is written and read, so each is one event.
//
// Usage: forms FORM (forms list: all names)      Turns are passed on through eventfds.
//
// The forms are a table, one line each.
#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { LINES = 4096, LINE = 64, ROUNDS = 4 };

typedef void Form(char *start);

static _Alignas(4096) char memory[(LINES + 1) * LINE];
static _Thread_local char other[LINE] __attribute__((aligned(64)));

#define EACH_LINE(at) for (char *at = start; at < start + LINES * LINE; at += LINE)
#define EACH_PAIR(at) for (char *at = start; at < start + LINES * LINE; at += 2 * LINE)

// --- writing
static void write_plain(char *start) { EACH_LINE(at) __asm__ volatile("movq %1, %0" : "=m"(*(long *)at) : "r"(1L)); }
static void write_byte(char *start) { EACH_LINE(at) __asm__ volatile("movb $3, %0" : "=m"(at[63])); }
static void write_split(char *start) { EACH_PAIR(at) __asm__ volatile("movq %1, %0" : "=m"(*(long *)(at + 60)) : "r"(1L)); }
static void write_sse(char *start) { EACH_LINE(at) __asm__ volatile("movaps %%xmm0, %0" : "=m"(at[16])); }
static void write_sse_split(char *start) { EACH_PAIR(at) __asm__ volatile("movups %%xmm0, %0" : "=m"(at[56])); }
static void write_stream(char *start) { EACH_LINE(at) __asm__ volatile("movntiq %1, %0" : "=m"(at[8]) : "r"(1L)); }
static void write_exchange(char *start) { EACH_LINE(at) { long v = 2; __asm__ volatile("xchgq %1, %0" : "+m"(*(long *)at), "+r"(v)); } }
static void write_add(char *start) { EACH_LINE(at) __asm__ volatile("addl $5, %0" : "+m"(at[4]) : : "cc"); }
static void write_lock_add(char *start) { EACH_LINE(at) { long v = 1; __asm__ volatile("lock xaddq %1, %0" : "+m"(*(long *)at), "+r"(v) : : "cc"); } }
static void write_compare(char *start) { EACH_LINE(at) { long old = *(volatile long *)at; __asm__ volatile("lock cmpxchgq %2, %0" : "+m"(*(long *)at), "+a"(old) : "r"(9L) : "cc"); } }
static void write_setcc(char *start) { EACH_LINE(at) __asm__ volatile("testl %%eax, %%eax; setz %0" : "=m"(at[9]) : : "cc"); }
static void write_bts(char *start) { EACH_LINE(at) __asm__ volatile("btsq $3, %0" : "+m"(*(long *)at) : : "cc"); }
static void write_x87(char *start) { EACH_LINE(at) __asm__ volatile("fldz; fstpt %0" : "=m"(at[32])); }
static void write_rep_stosb(char *start) { size_t n = LINES * LINE; char *at = start; __asm__ volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(7) : "memory"); }
static void write_rep_stosq(char *start) { size_t n = LINES * LINE / 8; char *at = start; __asm__ volatile("rep stosq" : "+D"(at), "+c"(n) : "a"(7L) : "memory"); }
static void write_rep_movsb(char *start) { EACH_LINE(line) { size_t n = LINE; char *to = line, *from = other; __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory"); } }
static void write_movsq(char *start) { EACH_LINE(line) { char *to = line, *from = other; __asm__ volatile("movsq" : "+D"(to), "+S"(from) : : "memory"); } }
static void write_memset(char *start) { memset(start, 5, LINES * LINE); }
static void write_push(char *start) {
    // The stack pointer walks down over the lines; nothing else may use the stack meanwhile.
    char *top = start + LINES * LINE, *bottom = start;
    __asm__ volatile("movq %%rsp, %%r11\n\tmovq %0, %%rsp\n"
                     "1:\tpushq %%r11\n\tcmpq %1, %%rsp\n\tja 1b\n\tmovq %%r11, %%rsp"
                     : : "r"(top), "r"(bottom) : "r11", "cc", "memory");
}
__attribute__((target("avx"))) static void write_avx(char *start) { EACH_LINE(at) __asm__ volatile("vmovups %%ymm0, %0" : "=m"(at[8])); }
__attribute__((target("avx"))) static void write_avx_split(char *start) { EACH_PAIR(at) __asm__ volatile("vmovups %%ymm0, %0" : "=m"(at[48])); }
__attribute__((target("avx2"))) static void write_masked(char *start) {
    __m256i mask = _mm256_set_epi64x(0, 0, -1, 0), value = _mm256_set1_epi64x(3);
    EACH_LINE(at) { _mm256_maskstore_epi64((long long *)at, mask, value); __asm__ volatile("" : : : "memory"); }
}

// --- reading
static void read_plain(char *start) { EACH_LINE(at) { long v; __asm__ volatile("movq %1, %0" : "=r"(v) : "m"(*(long *)at)); } }
static void read_byte(char *start) { EACH_LINE(at) { int v; __asm__ volatile("movzbl %1, %0" : "=r"(v) : "m"(at[63])); } }
static void read_split(char *start) { EACH_PAIR(at) { long v; __asm__ volatile("movq %1, %0" : "=r"(v) : "m"(*(long *)(at + 60))); } }
static void read_add(char *start) { long sum = 0; EACH_LINE(at) __asm__ volatile("addq %1, %0" : "+r"(sum) : "m"(*(long *)at) : "cc"); }
static void read_compare(char *start) { EACH_LINE(at) __asm__ volatile("cmpl $7, %0" : : "m"(at[12]) : "cc"); }
static void read_test(char *start) { EACH_LINE(at) __asm__ volatile("testb $1, %0" : : "m"(at[1]) : "cc"); }
static void read_cmov(char *start) { EACH_LINE(at) { long v = 0; __asm__ volatile("testq %0, %0; cmovnzq %1, %0" : "+r"(v) : "m"(*(long *)at) : "cc"); } }
static void read_sse(char *start) { EACH_LINE(at) __asm__ volatile("movups %0, %%xmm1" : : "m"(at[5]) : "xmm1"); }
static void read_sse_operand(char *start) { EACH_LINE(at) __asm__ volatile("paddq %0, %%xmm1" : : "m"(at[16]) : "xmm1"); }
static void read_x87(char *start) { EACH_LINE(at) __asm__ volatile("fildll %0; fstp %%st(0)" : : "m"(*(long long *)at)); }
static void read_rep_movsb(char *start) { EACH_LINE(line) { size_t n = LINE; char *from = line, *to = other; __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory"); } }
static void read_lodsq(char *start) { EACH_LINE(line) { char *from = line; long v; __asm__ volatile("lodsq" : "=a"(v), "+S"(from) : : "memory"); } }
static void read_repe_cmpsb(char *start) { EACH_LINE(line) { size_t n = LINE; char *from = line, *to = line; __asm__ volatile("repe cmpsb" : "+D"(to), "+S"(from), "+c"(n) : : "cc", "memory"); } }
static void read_repne_scasb(char *start) { EACH_LINE(line) { size_t n = LINE; char *at = line; __asm__ volatile("repne scasb" : "+D"(at), "+c"(n) : "a"(0x7f) : "cc", "memory"); } }
static void read_memcmp(char *start) { volatile int same = memcmp(start, start, 1); (void)same; EACH_LINE(at) { volatile int d = memcmp(at, other, LINE); (void)d; } }
static void read_memchr(char *start) { void *volatile found = memchr(start, 0x7f, LINES * LINE); (void)found; }
static void read_pop(char *start) {
    char *bottom = start, *top = start + LINES * LINE;
    __asm__ volatile("movq %%rsp, %%r11\n\tmovq %0, %%rsp\n"
                     "1:\tpopq %%r10\n\tcmpq %1, %%rsp\n\tjb 1b\n\tmovq %%r11, %%rsp"
                     : : "r"(bottom), "r"(top) : "r10", "r11", "cc", "memory");
}
__attribute__((target("avx"))) static void read_avx(char *start) { EACH_LINE(at) __asm__ volatile("vmovups %0, %%ymm1" : : "m"(at[32]) : "xmm1"); }
__attribute__((target("avx"))) static void read_broadcast(char *start) { EACH_LINE(at) __asm__ volatile("vbroadcastss %0, %%ymm1" : : "m"(at[60]) : "xmm1"); }
__attribute__((target("avx2"))) static void read_gather(char *start) {
    // Four lines at a time.
    __m256i offsets = _mm256_set_epi64x(192, 128, 64, 0);
    for (char *at = start; at < start + LINES * LINE; at += 4 * LINE) {
        volatile __m256i got = _mm256_i64gather_epi64((const long long *)at, offsets, 1);
        (void)got;
    }
}

static const struct {
    const char *name;
    Form *form;
    int writes, needs_avx2;
} forms[] = {
    {"write-plain", write_plain, 1, 0}, {"write-byte", write_byte, 1, 0},
    {"write-split", write_split, 1, 0}, {"write-sse", write_sse, 1, 0},
    {"write-sse-split", write_sse_split, 1, 0}, {"write-stream", write_stream, 1, 0},
    {"write-exchange", write_exchange, 1, 0}, {"write-add", write_add, 1, 0},
    {"write-lock-add", write_lock_add, 1, 0}, {"write-compare", write_compare, 1, 0},
    {"write-setcc", write_setcc, 1, 0}, {"write-bts", write_bts, 1, 0},
    {"write-x87", write_x87, 1, 0}, {"write-rep-stosb", write_rep_stosb, 1, 0},
    {"write-rep-stosq", write_rep_stosq, 1, 0}, {"write-rep-movsb", write_rep_movsb, 1, 0},
    {"write-movsq", write_movsq, 1, 0}, {"write-memset", write_memset, 1, 0},
    {"write-push", write_push, 1, 0}, {"write-avx", write_avx, 1, 1},
    {"write-avx-split", write_avx_split, 1, 1}, {"write-masked", write_masked, 1, 1},
    {"read-plain", read_plain, 0, 0}, {"read-byte", read_byte, 0, 0},
    {"read-split", read_split, 0, 0}, {"read-add", read_add, 0, 0},
    {"read-compare", read_compare, 0, 0}, {"read-test", read_test, 0, 0},
    {"read-cmov", read_cmov, 0, 0}, {"read-sse", read_sse, 0, 0},
    {"read-sse-operand", read_sse_operand, 0, 0}, {"read-x87", read_x87, 0, 0},
    {"read-rep-movsb", read_rep_movsb, 0, 0}, {"read-lodsq", read_lodsq, 0, 0},
    {"read-repe-cmpsb", read_repe_cmpsb, 0, 0}, {"read-repne-scasb", read_repne_scasb, 0, 0},
    {"read-memcmp", read_memcmp, 0, 0}, {"read-memchr", read_memchr, 0, 0},
    {"read-pop", read_pop, 0, 0}, {"read-avx", read_avx, 0, 1},
    {"read-broadcast", read_broadcast, 0, 1}, {"read-gather", read_gather, 0, 1},
};
enum { FORMS = sizeof forms / sizeof *forms };

static Form *writer = write_plain, *reader = read_plain;
static int turn[2];

static void pass(int fd) {
    uint64_t one = 1;
    if (write(fd, &one, 8) != 8) _exit(3);
}

static void wait_for(int fd) {
    uint64_t value;
    if (read(fd, &value, 8) != 8) _exit(3);
}

static void *write_rounds(void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        wait_for(turn[0]);
        writer(memory);
        pass(turn[1]);
    }
    return argument;
}

static void *read_rounds(void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        wait_for(turn[1]);
        reader(memory);
        pass(turn[0]);
    }
    return argument;
}

int main(int argc, char **argv) {
    int chosen = -1;
    for (int f = 0; f < FORMS; f++) {
        if (forms[f].needs_avx2 && !__builtin_cpu_supports("avx2")) continue;
        if (argc == 2 && !strcmp(argv[1], "list")) puts(forms[f].name);
        if (argc == 2 && !strcmp(argv[1], forms[f].name)) chosen = f;
    }
    if (chosen < 0) return argc == 2 && !strcmp(argv[1], "list") ? 0 : 2;
    if (forms[chosen].writes) writer = forms[chosen].form;
    else reader = forms[chosen].form;
    pthread_t threads[2];
    turn[0] = eventfd(1, 0), turn[1] = eventfd(0, 0);
    if (pthread_create(&threads[0], NULL, write_rounds, NULL)) return 3;
    if (pthread_create(&threads[1], NULL, read_rounds, NULL)) return 3;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    printf("expect raw 1 2 %d\nexpect invalidation 1 2 %d\n", ROUNDS * LINES, (ROUNDS - 1) * LINES);
    return 0;
}
