// Operands of which only the run tells what they touch, where they are hard to follow: under a
// storm of signals whose handler uses such operands, too; with elements that the mask leaves out in
// memory that is not there; and with faults, after which a handler provides the memory and the
// instruction goes on. Prints the same on every processor.
#define _GNU_SOURCE
#include <immintrin.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>

enum { PAGE = 4096, SIGNALS = 400 };
#define GATHERS __attribute__((target("avx2"), noinline))
#define WIDE __attribute__((target("avx512f,avx512bw,avx512vl"), noinline))

static volatile sig_atomic_t signals, wrong, faults;
static char *volatile closed; // the page that a fault opens
static sigjmp_buf away;
static int table[1024], other_table[1024];

GATHERS static int gather_sum(const int *from, int start) {
    __m256i at = _mm256_add_epi32(_mm256_set1_epi32(start), _mm256_set_epi32(70, 60, 50, 40, 30, 20, 10, 0));
    __m256i got = _mm256_i32gather_epi32(from, at, 4);
    int sums[8], sum = 0;
    _mm256_storeu_si256((__m256i *)sums, got);
    for (int k = 0; k < 8; k++) sum += sums[k];
    return sum;
}

static void on_timer(int number) {
    static char area[4096] __attribute__((aligned(64)));
    (void)number;
    signals++;
    if (gather_sum(other_table, 3) != -8 * 3 - 280) wrong++;
    __asm__ volatile("fxsave64 %0" : "=m"(*(char(*)[512])area));
}

static void storm(void) {
    for (int k = 0; k < 1024; k++) table[k] = k, other_table[k] = -k;
    struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
    struct itimerval every = {{0, 250}, {0, 250}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &every, 0);
    for (int k = 0; signals < SIGNALS; k = (k + 1) % 900)
        if (gather_sum(table, k) != 8 * k + 280) wrong++;
    setitimer(ITIMER_REAL, &never, 0);
    printf("signals between gathers: %d wrong\n", (int)wrong);
}

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    faults++;
    if (!closed) siglongjmp(away, 1);
    mprotect(closed, PAGE, PROT_READ | PROT_WRITE);
    closed = NULL;
}

// Two pages, of which the second is not there.
static char *half_open(void) {
    char *two = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(two + PAGE, PAGE, PROT_NONE);
    closed = two + PAGE;
    faults = 0;
    return two;
}

static void report(const char *what, long result) {
    printf("%s: %ld, faults %d\n", what, result, (int)faults);
    closed = NULL;
}

GATHERS static void masked_gather(void) {
    int *end = (int *)(half_open() + PAGE);
    end[-1] = 7;
    __m256i at = _mm256_set_epi32(5, -1, 4, -1, 3, -1, 2, -1), mask = _mm256_set_epi32(0, -1, 0, -1, 0, -1, 0, -1);
    __m256i got = _mm256_mask_i32gather_epi32(_mm256_setzero_si256(), end, at, mask, 4);
    report("elements left out", _mm256_extract_epi32(got, 4) + _mm256_extract_epi32(got, 5));
}

GATHERS static void faulting_gather(void) {
    int *end = (int *)(half_open() + PAGE);
    end[-2] = 5;
    __m256i at = _mm256_set_epi32(-2, -2, 2, -2, -2, -2, -2, -2);
    int got[8];
    _mm256_storeu_si256((__m256i *)got, _mm256_i32gather_epi32(end, at, 4));
    report("gather with a fault", got[0] + got[5] + got[7]);
}

GATHERS static void masked_store(void) {
    char *end = half_open() + PAGE;
    _mm256_maskstore_epi32((int *)(end - 16), _mm256_set_epi32(0, 0, 0, 0, -1, -1, -1, -1), _mm256_set1_epi32(9));
    report("store up to the end", end[-1] + end[-16]);
}

GATHERS static void faulting_store(void) {
    char *end = half_open() + PAGE;
    _mm256_maskstore_epi32((int *)(end - 16), _mm256_set_epi32(0, -1, 0, 0, 0, 0, 0, -1), _mm256_set1_epi32(0x01010101));
    report("store with a fault", end[-16] + end[-12] + end[8]);
}

GATHERS static void nowhere(void) {
    faults = 0;
    closed = NULL;
    volatile long sum = 0;
    if (!sigsetjmp(away, 1)) {
        __m256i at = _mm256_set_epi64x(1L << 62, 8, 0x7fff00000000, -8);
        __m256i got = _mm256_i64gather_epi64((const long long *)0x0badbad000000000, at, 1);
        sum = _mm256_extract_epi64(got, 0);
    }
    report("gather from nowhere", sum);
}

// Where no address can be: all elements are left out, so nothing happens.
GATHERS static void nothing_at(char *address) {
    faults = 0;
    closed = NULL;
    __m256i none = _mm256_setzero_si256();
    volatile long sum = 1;
    if (!sigsetjmp(away, 1)) {
        __m256i got = _mm256_maskload_epi32((int *)address, none);
        _mm256_maskstore_epi32((int *)address, none, got);
        got = _mm256_mask_i32gather_epi32(got, (int *)address, none, none, 4);
        sum = _mm256_extract_epi64(got, 1);
    }
    report("nothing at a wild address", sum);
}

static void faulting_restore(void) {
    char *area = half_open() + PAGE;
    unsigned plain = 0x1f80;
    // All zeros: the initial state, and an MXCSR that stops at everything.
    __asm__ volatile("xrstor64 %0\n\tldmxcsr %1" : : "m"(*(char(*)[1024])area), "m"(plain), "a"(3), "d"(0) : "memory");
    report("restore with a fault", 1);
}

static void faulting_save(void) {
    char *area = half_open() + PAGE;
    __asm__ volatile("xsave64 %0" : "=m"(*(char(*)[1024])area) : "a"(3), "d"(0) : "memory");
    report("save with a fault", area[512] & 2);
}

static void faulting_scan(void) {
    char *start = half_open(), *at = start + 16;
    memset(start, 1, PAGE);
    size_t left = 2 * PAGE;
    __asm__ volatile("repne scasb" : "+D"(at), "+c"(left) : "a"(0) : "cc", "memory");
    report("scan with a fault", at - start);
}

static void bits_beyond(void) {
    char *end = half_open() + PAGE;
    long bit = 8 * 40 + 3;
    __asm__ volatile("btsq %1, %0" : "+m"(end[-8]) : "r"(bit) : "cc", "memory");
    report("bit with a fault", end[32]);
}

WIDE static void wide(void) {
    int *end = (int *)(half_open() + PAGE);
    __m512i at = _mm512_set_epi32(-1, 1, -2, 2, -3, 3, -4, 4, -5, 5, -6, 6, -7, 7, -8, 8);
    _mm512_mask_i32scatter_epi32(end, 0xaaaa, at, at, 4);
    _mm512_mask_compressstoreu_epi32(end - 3, 0x7000, at);
    __m512i got = _mm512_maskz_expandloadu_epi32(0x8101, end - 3);
    if (_mm512_reduce_add_epi32(got) != 2 - 2 + 1 || end[-8] != -8 || faults) wrong++;
    closed = (char *)end;
    _mm512_mask_i32scatter_epi32(end, 0xffff, at, at, 4);
    if (end[8] != 8 || end[1] != 1 || faults != 1) wrong++;
    _mm512_mask_storeu_epi8((char *)-40, 0, at);
    got = _mm512_maskz_add_epi32(0, at, _mm512_maskz_loadu_epi32(0, (char *)(1L << 62)));
    if (_mm512_reduce_add_epi32(got) || faults != 1) wrong++;
}

int main(void) {
    setvbuf(stdout, 0, _IOLBF, 0);
    if (!__builtin_cpu_supports("avx2")) return puts("needs AVX2"), 0;
    storm();
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    sigaction(SIGBUS, &action, 0);
    masked_gather();
    faulting_gather();
    masked_store();
    faulting_store();
    nowhere();
    nothing_at((char *)-32);
    nothing_at((char *)0x7ffffffffff0);
    nothing_at((char *)(1L << 61));
    nothing_at(NULL);
    faulting_restore();
    faulting_save();
    bits_beyond();
    faulting_scan();
    wrong = 0;
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) wide();
    printf("wide: %d wrong\n", (int)wrong);
    return 0;
}
