// Every way for an instruction to read or write memory, with known truth. Thread 1 writes LINES
// cache lines, thread 2 reads them; one of the two uses the form named on the command line, the
// other plain words. Each line that the form touches is written and read, so each is one event; the
// others must not show up.
//
// Usage: forms FORM (forms list: all names)      Turns are passed on through eventfds.
//
// The forms are a table, one line each.
#include <cpuid.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
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

// --- writing where only the run tells what: even lines only, of an operand that reaches into odd
// ones.
__attribute__((target("avx2"))) static void write_masked_half(char *start) {
    __m256i mask = _mm256_set_epi32(0, 0, 0, 0, -1, -1, -1, -1), value = _mm256_set1_epi32(3);
    EACH_PAIR(at) { _mm256_maskstore_epi32((int *)(at + 48), mask, value); __asm__ volatile("" : : : "memory"); }
}
static void write_maskmovdqu_half(char *start) {
    __m128i mask = _mm_set_epi64x(0, -1), value = _mm_set1_epi8(3);
    EACH_PAIR(at) { _mm_maskmoveu_si128(value, mask, at + 56); __asm__ volatile("" : : : "memory"); }
}
static void write_bit_string(char *start) { EACH_LINE(at) { long bit = (at - start) * 8 + 300; __asm__ volatile("lock btsq %1, %0" : "+m"(*start) : "r"(bit) : "cc", "memory"); } }
static void write_bit_string_down(char *start) { EACH_LINE(at) { int bit = (int)(at - start - LINES * LINE) * 8 + 32; __asm__ volatile("btrl %1, %0" : "+m"(start[LINES * LINE]) : "r"(bit) : "cc", "memory"); } }
static void write_clzero(char *start) { EACH_LINE(at) __asm__ volatile("clzero" : : "a"(at + 17) : "memory"); }
static void write_fxsave(char *start) { for (char *at = start; at < start + LINES * LINE; at += 8 * LINE) __asm__ volatile("fxsave64 %0" : "=m"(*at) : : "memory"); }
#define WIDE __attribute__((target("avx512f,avx512bw,avx512vl")))
WIDE static void write_512_half(char *start) {
    EACH_PAIR(at) { _mm512_mask_storeu_epi16(at + 32, 0xffff, _mm512_set1_epi16(5)); __asm__ volatile("" : : : "memory"); }
}
WIDE static void write_scatter_half(char *start) {
    __m512i offsets = _mm512_set_epi64(448, 384, 320, 256, 192, 128, 64, 0);
    for (char *at = start; at < start + LINES * LINE; at += 8 * LINE)
        _mm512_mask_i64scatter_epi64(at, 0x55, offsets, offsets, 1);
}
WIDE static void write_scatter_scaled_half(char *start) {
    __m512i offsets = _mm512_set_epi32(-32, -24, -16, -8, 0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88);
    for (char *at = start; at < start + LINES * LINE; at += 16 * LINE)
        _mm512_mask_i32scatter_ps(at + 4 * LINE, 0xaaaa, offsets, _mm512_set1_ps(1), 8);
}
WIDE static void write_compress_half(char *start) {
    EACH_PAIR(at) { _mm512_mask_compressstoreu_epi32(at + 48, 0x8421, _mm512_set1_epi32(6)); __asm__ volatile("" : : : "memory"); }
}
WIDE static void write_extract_half(char *start) {
    EACH_PAIR(at) { _mm512_mask_cvtepi64_storeu_epi32(at + 48, 0xf, _mm512_set1_epi64(6)); __asm__ volatile("" : : : "memory"); }
}

// Tiles: rows of up to 64 bytes, as far from each other as a register says.
static int has_tiles(void) {
    // The kernel gives them to who asks for them (arch_prctl, ARCH_REQ_XCOMP_PERM).
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && d >> 24 & 1 && syscall(SYS_arch_prctl, 0x1023, 18) == 0;
}
static void set_tiles(int bytes, int rows) {
    struct { uint8_t palette, start, reserved[14]; uint16_t bytes[16]; uint8_t rows[16]; } all = {.palette = 1};
    for (int k = 0; k < 8; k++) all.bytes[k] = (uint16_t)bytes, all.rows[k] = (uint8_t)rows;
    __asm__ volatile("ldtilecfg %0" : : "m"(all));
}

// Areas of processor state, one in each 256 lines. Which lines the processor writes is found out on
// memory of this thread's own, from which bytes differ however the area was filled before.
enum { AREA = 16384 }; // with tiles, an area has 11 KiB
static long area_lines;
static _Alignas(AREA) char trial[2][AREA];

#define SAVES(name, instruction, requested)                                                              \
    __attribute__((noinline)) static void name(char *area) {                                             \
        __asm__ volatile(instruction " %0" : "+m"(*(char(*)[AREA])area) : "a"(requested), "d"(0));       \
    }
SAVES(xsave_all, "xsave64", -1)
SAVES(xsave_some, "xsave64", 6)
SAVES(xsavec_all, "xsavec64", -1)
SAVES(xsavec_some, "xsavec64", 0x24)
SAVES(xsaveopt_all, "xsaveopt64", -1)

static void all_in_use(void) {
    __asm__ volatile("fninit; fld1; vpcmpeqd %%ymm1, %%ymm1, %%ymm1" : : : "memory");
    // The C library's memset leaves what it fills with in zmm16.
    if (__builtin_cpu_supports("avx512bw"))
        __asm__ volatile("kxnorq %%k1, %%k1, %%k1; vpternlogd $255, %%zmm1, %%zmm1, %%zmm1; vpternlogd $255, %%zmm16, %%zmm16, %%zmm16; vpternlogd $255, %%zmm20, %%zmm20, %%zmm20" : : : "memory");
    if (has_tiles()) {
        set_tiles(64, 16);
        __asm__ volatile("tileloadd (%0,%1), %%tmm3" : : "r"(all_in_use), "r"(1L) : "memory");
    }
}

static void write_areas(char *start, void (*save)(char *)) {
    static const unsigned char fill[2] = {0xaa, 0x55};
    for (int k = 0; k < 2; k++) {
        memset(trial[k], fill[k], AREA);
        memset(trial[k] + 512, 0, 64); // a header must be one
        all_in_use();
        save(trial[k]);
    }
    area_lines = 0;
    for (char *line = trial[0]; line < trial[0] + AREA; line += LINE) {
        int written = line == trial[0] + 512; // the header, filled the same
        for (int k = 0; k < LINE; k++) written |= line[k] == line[k + AREA];
        area_lines += written;
    }
    all_in_use();
    for (char *at = start; at < start + LINES * LINE; at += AREA) save(at);
}
static void write_xsave(char *start) { write_areas(start, xsave_all); }
static void write_xsave_some(char *start) { write_areas(start, xsave_some); }
static void write_xsavec(char *start) { write_areas(start, xsavec_all); }
static void write_xsavec_some(char *start) { write_areas(start, xsavec_some); }
static void write_xsaveopt(char *start) { write_areas(start, xsaveopt_all); }

#define EACH_TILE(instruction, bytes, distance)                                                              \
    set_tiles(bytes, 16);                                                                                             \
    for (char *at = start; at < start + LINES * LINE; at += 16L * (distance))                                         \
        __asm__ volatile(instruction : : "r"(at), "r"((long)(distance)) : "memory");                                  \
    __asm__ volatile("tilerelease" : : : "memory")
static void write_tile(char *start) { EACH_TILE("tilestored %%tmm0, (%0,%1)", 64, LINE); }
static void write_tile_half(char *start) { EACH_TILE("tilestored %%tmm7, (%0,%1)", 40, 2 * LINE); }
static void write_movdir64b(char *start) { EACH_LINE(at) __asm__ volatile("movdir64b %0, %1" : : "m"(other), "r"(at) : "memory"); }
static void write_movdiri(char *start) { EACH_LINE(at) __asm__ volatile("movdiri %1, %0" : "=m"(*(long *)(at + 8)) : "r"(1L)); }

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

// --- reading where only the run tells what: even lines only, of an operand that reaches into odd
// ones.
__attribute__((target("avx2"))) static void read_gather_half(char *start) {
    __m256i offsets = _mm256_set_epi32(112, 96, 80, 64, 48, 32, 16, 0), mask = _mm256_set_epi32(0, -1, 0, -1, 0, -1, 0, -1);
    for (char *at = start; at < start + LINES * LINE; at += 8 * LINE) {
        volatile __m256i got = _mm256_mask_i32gather_epi32(offsets, (const int *)at, offsets, mask, 4);
        (void)got;
    }
}
__attribute__((target("avx2"))) static void read_gather_down(char *start) {
    __m128i offsets = _mm_set_epi32(-32, -24, -16, -8);
    for (char *at = start + LINES * LINE; at > start; at -= 4 * LINE) {
        volatile __m256d got = _mm256_i32gather_pd((const double *)at, offsets, 8);
        (void)got;
    }
}
__attribute__((target("avx2"))) static void read_masked_half(char *start) {
    __m256i mask = _mm256_set_epi64x(0, 0, -1, 1);
    EACH_PAIR(at) { volatile __m256i got = _mm256_maskload_epi64((const long long *)(at + 48), mask); (void)got; }
}
static void read_bit_string(char *start) { EACH_LINE(at) { long bit = (at - start) * 8 + 7; __asm__ volatile("btq %1, %0" : : "m"(*start), "r"(bit) : "cc", "memory"); } }
static void read_table(char *start) { EACH_LINE(at) { long index = (at - start) & 0xff; __asm__ volatile("xlatb" : "+a"(index) : "b"(at - ((at - start) & 0xff)) : "memory"); } }
WIDE static void read_512_half(char *start) {
    EACH_PAIR(at) { volatile __m512i got = _mm512_maskz_loadu_epi8(0x0f0f0f0f, at + 32); (void)got; }
}
WIDE static void read_expand_half(char *start) {
    EACH_PAIR(at) { volatile __m512i got = _mm512_maskz_expandloadu_epi64(0x82, at + 48); (void)got; }
}
WIDE static void read_gather_512_half(char *start) {
    __m512i offsets = _mm512_set_epi64(448, 384, 320, 256, 192, 128, 64, 0);
    for (char *at = start; at < start + LINES * LINE; at += 8 * LINE) {
        volatile __m512i got = _mm512_mask_i64gather_epi64(offsets, 0x55, offsets, at, 1);
        (void)got;
    }
}
WIDE static void read_broadcast_half(char *start) {
    // With an empty mask, the odd line's element is not read.
    EACH_PAIR(at) __asm__ volatile("kxnorb %%k1, %%k1, %%k1; vaddpd %0%{1to8%}, %%zmm1, %%zmm1%{%%k1%}; kxorw %%k1, %%k1, %%k1; vaddpd %1%{1to8%}, %%zmm1, %%zmm1%{%%k1%}" : : "m"(*(double *)at), "m"(*(double *)(at + LINE)) : "xmm1", "k1");
}
WIDE static void read_permuted(char *start) {
    // The mask decides about the result only: all is read.
    EACH_PAIR(at) __asm__ volatile("kxorw %%k1, %%k1, %%k1; vpermd %0, %%zmm1, %%zmm1%{%%k1%}" : : "m"(*(char(*)[64])(at + 32)) : "xmm1", "k1");
}
static void read_xrstor(char *start) {
    // The plain writer's word at the header's start says that only x87 state is there, 160 bytes.
    area_lines = 4;
    unsigned plain = 0x1f80;
    for (char *at = start; at < start + LINES * LINE; at += AREA)
        __asm__ volatile("xrstor64 %0" : : "m"(*(char(*)[AREA])at), "a"(7), "d"(0) : "memory");
    __asm__ volatile("fninit; ldmxcsr %0" : : "m"(plain));
}

static void read_tile(char *start) { EACH_TILE("tileloadd (%0,%1), %%tmm0", 64, LINE); }
static void read_tile_half(char *start) { EACH_TILE("tileloaddt1 (%0,%1), %%tmm6", 8, 2 * LINE); }

static const struct {
    const char *name;
    Form *form;
    int writes;
    enum { ANY, AVX2, AVX512, CLZERO, STATE, TILES, DIRECT } needs;
    enum { ALL, HALF, LEGACY_AREAS, AREAS } lines;
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
    {"write-masked-half", write_masked_half, 1, AVX2, HALF},
    {"write-maskmovdqu-half", write_maskmovdqu_half, 1, ANY, HALF},
    {"write-bit-string", write_bit_string, 1, ANY, ALL},
    {"write-bit-string-down", write_bit_string_down, 1, ANY, ALL},
    {"write-clzero", write_clzero, 1, CLZERO, ALL},
    {"write-fxsave", write_fxsave, 1, ANY, LEGACY_AREAS},
    {"write-512-half", write_512_half, 1, AVX512, HALF},
    {"write-scatter-half", write_scatter_half, 1, AVX512, HALF},
    {"write-scatter-scaled-half", write_scatter_scaled_half, 1, AVX512, HALF},
    {"write-compress-half", write_compress_half, 1, AVX512, HALF},
    {"write-extract-half", write_extract_half, 1, AVX512, HALF},
    {"write-xsave", write_xsave, 1, STATE, AREAS},
    {"write-xsave-some", write_xsave_some, 1, STATE, AREAS},
    {"write-xsavec", write_xsavec, 1, STATE, AREAS},
    {"write-xsavec-some", write_xsavec_some, 1, STATE, AREAS},
    {"write-xsaveopt", write_xsaveopt, 1, STATE, AREAS},
    {"read-gather-half", read_gather_half, 0, AVX2, HALF},
    {"read-gather-down", read_gather_down, 0, AVX2, ALL},
    {"read-masked-half", read_masked_half, 0, AVX2, HALF},
    {"read-bit-string", read_bit_string, 0, ANY, ALL},
    {"read-table", read_table, 0, ANY, ALL},
    {"read-512-half", read_512_half, 0, AVX512, HALF},
    {"read-expand-half", read_expand_half, 0, AVX512, HALF},
    {"read-gather-512-half", read_gather_512_half, 0, AVX512, HALF},
    {"read-broadcast-half", read_broadcast_half, 0, AVX512, HALF},
    {"read-permuted", read_permuted, 0, AVX512, ALL},
    {"read-xrstor", read_xrstor, 0, STATE, AREAS},
    {"write-tile", write_tile, 1, TILES, ALL},
    {"write-tile-half", write_tile_half, 1, TILES, HALF},
    {"read-tile", read_tile, 0, TILES, ALL},
    {"read-tile-half", read_tile_half, 0, TILES, HALF},
    {"write-movdir64b", write_movdir64b, 1, DIRECT, ALL},
    {"write-movdiri", write_movdiri, 1, DIRECT, ALL},
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

static int is_here(int needed) {
    unsigned a, b, c, d;
    switch (needed) {
    case AVX2: return __builtin_cpu_supports("avx2") != 0;
    case AVX512: return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    case CLZERO: return __get_cpuid(0x80000008, &a, &b, &c, &d) && b & 1;
    // xsavec and xsaveopt, and what to save.
    case STATE: return __get_cpuid_count(0xd, 1, &a, &b, &c, &d) && (a & 7) == 7 && __builtin_cpu_supports("avx2");
    case TILES: return has_tiles();
    case DIRECT: return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c >> 27 & 3) == 3;
    default: return 1;
    }
}

// Lines that the chosen form touches in each round.
static long lines_of(int form) {
    switch (forms[form].lines) {
    case HALF: return LINES / 2;
    case LEGACY_AREAS: return LINES / 8 * 7; // 416 bytes of 512
    case AREAS: return LINES * LINE / AREA * area_lines;
    default: return LINES;
    }
}

int main(int argc, char **argv) {
    int chosen = -1;
    for (int f = 0; f < FORMS; f++) {
        if (!is_here(forms[f].needs)) continue;
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
    long lines = lines_of(chosen);
    printf("expect raw 1 2 %ld\nexpect invalidation 1 2 %ld\n", ROUNDS * lines, (ROUNDS - 1) * lines);
    return 0;
}
