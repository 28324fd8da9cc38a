// Threads that run strictly one at a time and access one arena in ways drawn from a seed: every
// access, and so every event in the arena, is the same in each run. Two recordings of it, made in
// different ways, must agree event by event.
//
// Usage: serial THREADS STEPS SEED. Prints `region NAME ADDRESS BYTES` and a checksum.
//
// The baton goes by eventfd, which touches the waiting thread's own stack only.
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

enum { MAX_THREADS = 64, ARENA = 16384, SPREAD = 2048 };

static _Alignas(4096) unsigned char arena[ARENA];
static int go[MAX_THREADS], done;
static struct {
    _Alignas(4096) uint64_t state, sum;
    int last;
} work[MAX_THREADS];

#define OPERATION static __attribute__((noinline)) uint64_t

typedef struct {
    float a[7];
    short b;
    char c[5];
} Record;

OPERATION read_byte(unsigned char *p) { return *p; }
OPERATION read_word(unsigned char *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}
OPERATION write_byte(unsigned char *p) { return *(volatile unsigned char *)p = (unsigned char)((uintptr_t)p % 4096); }
OPERATION write_half(unsigned char *p) {
    *(volatile uint16_t *)p = 77;
    return 1;
}
OPERATION write_word(unsigned char *p) {
    *(volatile uint64_t *)p = 0x1234567890abcdef;
    return 2;
}
OPERATION add_word(unsigned char *p) { return *(volatile uint32_t *)p += 5; }
OPERATION locked_add(unsigned char *p) {
    p -= (uintptr_t)p % 8;
    return atomic_fetch_add((_Atomic uint64_t *)p, 3);
}
OPERATION compare_exchange(unsigned char *p) {
    p -= (uintptr_t)p % 4;
    uint32_t expected = 5;
    return atomic_compare_exchange_strong((_Atomic uint32_t *)p, &expected, 6);
}
OPERATION exchange(unsigned char *p) {
    p -= (uintptr_t)p % 8;
    return atomic_exchange((_Atomic uint64_t *)p, (uintptr_t)p % 4096);
}
OPERATION sum_loop(unsigned char *p) {
    uint64_t sum = 0;
    for (int i = 0; i < 40; i++) sum += p[i * 8] ^ (unsigned)i;
    return sum;
}
OPERATION fill_loop(unsigned char *p) {
    for (int i = 0; i < 150; i++) p[i] = (unsigned char)i;
    return 3;
}
OPERATION axpy_loop(unsigned char *p) {
    uint32_t *x = (uint32_t *)p, *y = x + 60;
    for (int i = 0; i < 50; i++) y[i] += 3 * x[i];
    return y[7];
}
OPERATION stride_loop(unsigned char *p) {
    for (int i = 0; i < 12; i++) *(volatile uint16_t *)(p + i * 72) += 1;
    return 4;
}
OPERATION copy_small(unsigned char *p) {
    memmove(p, p + 100, 33);
    return 5;
}
OPERATION copy_large(unsigned char *p) {
    memcpy(p + 1100, p, 900);
    return 6;
}
OPERATION set_range(unsigned char *p) {
    memset(p, 9, 77);
    return 7;
}
OPERATION repeat_store(unsigned char *p) {
    unsigned long count = 41;
    __asm__ volatile("rep stosb" : "+D"(p), "+c"(count) : "a"(1) : "memory");
    return count;
}
OPERATION record_fields(unsigned char *p) {
    Record *r = (Record *)(p - (uintptr_t)p % 4);
    r->a[3] = 2.5f;
    r->b = 7;
    r->c[2] = (char)(r->c[4] + 1);
    return (uint64_t)r->a[0] != 0;
}
OPERATION find_byte(unsigned char *p) { return (uint64_t)(memchr(p, 255, 300) != NULL); }
OPERATION same_word_often(unsigned char *p) {
    volatile uint32_t *v = (volatile uint32_t *)p;
    for (int i = 0; i < 5; i++) v[i & 1] = v[2] + (uint32_t)i;
    return v[1];
}

// What compilers make gathers, scatters and masked moves of, where the processor has them.
static int places[64];

OPERATION sum_places(unsigned char *p) {
    const float *x = (const float *)p;
    float sum = 0;
    for (int i = 0; i < 64; i++) sum += x[places[i]];
    return sum > 3;
}
OPERATION write_places(unsigned char *p) {
    uint32_t *x = (uint32_t *)p;
    for (int i = 0; i < 32; i++) x[places[i]] = (uint32_t)i;
    return 8;
}
OPERATION some_of_them(unsigned char *p) {
    const int32_t *x = (const int32_t *)p;
    int32_t *y = (int32_t *)(p + 1200);
    for (int i = 0; i < 48; i++)
        if (places[i] > 100) y[i] = x[i] + 1;
    return 9;
}
#ifdef __AVX2__
OPERATION gather_words(unsigned char *p) {
    __m256i at = _mm256_loadu_si256((const __m256i *)places);
    __m256i mask = _mm256_slli_epi32(at, 30);
    __m256i got = _mm256_mask_i32gather_epi32(at, (const int *)p, at, mask, 4);
    return (uint64_t)_mm256_extract_epi64(got, 1) & 7;
}
OPERATION store_some(unsigned char *p) {
    __m256i at = _mm256_loadu_si256((const __m256i *)places);
    _mm256_maskstore_epi32((int *)p, _mm256_slli_epi32(at, 30), at);
    _mm_maskmoveu_si128(_mm_set1_epi8(3), _mm_set_epi64x((long long)0xff00ff00ff00ff00, 0x80), (char *)p + 40);
    return 10;
}
#endif
#ifdef __AVX512BW__
OPERATION scatter_words(unsigned char *p) {
    __m512i at = _mm512_loadu_si512(places);
    _mm512_mask_i32scatter_epi32(p, _mm512_test_epi32_mask(at, _mm512_set1_epi32(2)), at, at, 4);
    return 11;
}
OPERATION pack_words(unsigned char *p) {
    __m512i at = _mm512_loadu_si512(places);
    __mmask16 odd = _mm512_test_epi32_mask(at, _mm512_set1_epi32(1));
    _mm512_mask_compressstoreu_epi32(p, odd, at);
    __m512i got = _mm512_maskz_expandloadu_epi32((__mmask16)~odd, p + 300);
    _mm512_mask_storeu_epi8(p + 500, 0x8001f0f0ff00aa55, got);
    return (uint64_t)_mm512_reduce_add_epi32(got) & 7;
}
OPERATION pass_through_area(unsigned char *p) {
    // SSE and AVX only, which the compiler keeps nothing in here.
    unsigned char *area = p - (uintptr_t)p % 64;
    memset(area + 512, 0, 64);
    __asm__ volatile("xsavec64 %0\n\txrstor64 %0" : "+m"(*(char(*)[1024])area) : "a"(6), "d"(0) : "memory");
    return 12;
}
#endif

static uint64_t (*const operations[])(unsigned char *) = {
    read_byte,  read_word,    write_byte,  write_half,  write_word,    add_word,      locked_add,
    exchange,   sum_loop,     fill_loop,   axpy_loop,   stride_loop,   copy_small,    copy_large,
    set_range,  repeat_store, find_byte,   record_fields, same_word_often, compare_exchange,
    sum_places, write_places, some_of_them,
#ifdef __AVX2__
    gather_words, store_some,
#endif
#ifdef __AVX512BW__
    scatter_words, pack_words, pass_through_area,
#endif
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static uint64_t draw(uint64_t *state, uint64_t n) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % n;
}

static void wait_for(int fd) {
    uint64_t value;
    if (read(fd, &value, 8) != 8) _exit(3);
}

static void post(int fd) {
    uint64_t one = 1;
    if (write(fd, &one, 8) != 8) _exit(3);
}

static void *run(void *argument) {
    int me = (int)(intptr_t)argument;
    for (;;) {
        wait_for(go[me]);
        if (work[me].last) return NULL;
        for (int k = 0; k < 6; k++) {
            unsigned char *p = arena + draw(&work[me].state, SPREAD);
            work[me].sum += operations[draw(&work[me].state, OPERATIONS)](p);
        }
        post(done);
    }
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 4, steps = argc > 2 ? atoi(argv[2]) : 100;
    uint64_t order = argc > 3 ? (uint64_t)atoi(argv[3]) : 1;
    if (threads < 1 || threads > MAX_THREADS) return 2;
    pthread_t ids[MAX_THREADS];
    for (int i = 0; i < 64; i++) places[i] = i * 37 % 251;
    done = eventfd(0, EFD_SEMAPHORE);
    for (int t = 0; t < threads; t++) {
        go[t] = eventfd(0, EFD_SEMAPHORE);
        work[t].state = order * 1000 + (uint64_t)t;
    }
    for (int t = 0; t < threads; t++)
        if (pthread_create(&ids[t], NULL, run, (void *)(intptr_t)t)) return 3;
    for (int step = 0; step < steps; step++) {
        post(go[draw(&order, (uint64_t)threads)]);
        wait_for(done);
    }
    uint64_t sum = 0;
    for (int t = 0; t < threads; t++) {
        work[t].last = 1;
        post(go[t]);
        pthread_join(ids[t], NULL);
        sum += work[t].sum & 0xffff;
    }
    printf("region arena %p %d\n", (void *)arena, ARENA);
    printf("checksum %llu\n", (unsigned long long)sum);
    return 0;
}
