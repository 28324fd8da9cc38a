// Functions that the compiler may turn loops into.
#ifndef TT_LIBC_H
#define TT_LIBC_H

// Words that may lie anywhere; alignment checks are off in the agent.
typedef unsigned long any_u64 __attribute__((aligned(1), may_alias));
typedef unsigned int any_u32 __attribute__((aligned(1), may_alias));
typedef unsigned short any_u16 __attribute__((aligned(1), may_alias));

// Beyond this many bytes the processor's own way is faster, which takes long to begin.
#define TT_LONG 512

// Loops here must stay loops.
#define TT_AS_WRITTEN __attribute__((optimize("no-tree-loop-distribute-patterns")))

// Up to 16 bytes, from either end, so that they may overlap.
static inline void move_few(char *d, const char *s, unsigned long n) {
    if (n >= 8) {
        unsigned long first = *(const any_u64 *)s, last = *(const any_u64 *)(s + n - 8);
        *(any_u64 *)d = first;
        *(any_u64 *)(d + n - 8) = last;
    } else if (n >= 4) {
        unsigned int first = *(const any_u32 *)s, last = *(const any_u32 *)(s + n - 4);
        *(any_u32 *)d = first;
        *(any_u32 *)(d + n - 4) = last;
    } else if (n >= 2) {
        unsigned short first = *(const any_u16 *)s, last = *(const any_u16 *)(s + n - 2);
        *(any_u16 *)d = first;
        *(any_u16 *)(d + n - 2) = last;
    } else if (n) {
        *d = *s;
    }
}

TT_AS_WRITTEN void *memcpy(void *to, const void *from, unsigned long n) {
    void *start = to;
    if (n > TT_LONG) {
        __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
        return start;
    }
    char *d = to;
    const char *s = from;
    for (; n > 16; n -= 16, d += 16, s += 16) {
        unsigned long low = ((const any_u64 *)s)[0], high = ((const any_u64 *)s)[1];
        ((any_u64 *)d)[0] = low;
        ((any_u64 *)d)[1] = high;
    }
    move_few(d, s, n);
    return start;
}

TT_AS_WRITTEN void *memmove(void *to, const void *from, unsigned long n) {
    char *d = to;
    const char *s = from;
    if (n <= 16) {
        move_few(d, s, n);
        return to;
    }
    // The first bytes are read before they can be overwritten: the loop in memcpy goes up.
    if (d <= s || d >= s + n)
        return memcpy(to, from, n);
    for (; n >= 8; n -= 8)
        *(any_u64 *)(d + n - 8) = *(const any_u64 *)(s + n - 8);
    while (n--)
        d[n] = s[n];
    return to;
}

TT_AS_WRITTEN void *memset(void *to, int value, unsigned long n) {
    char *d = to;
    unsigned long word = (unsigned char)value * 0x0101010101010101ul;
    if (n > TT_LONG) {
        __asm__ volatile("rep stosb" : "+D"(d), "+c"(n) : "a"(value) : "memory");
        return to;
    }
    for (; n >= 8; n -= 8, d += 8)
        *(any_u64 *)d = word;
    while (n--)
        *d++ = value;
    return to;
}

TT_AS_WRITTEN int memcmp(const void *a, const void *b, unsigned long n) {
    const unsigned char *x = a, *y = b;
    for (; n >= 8 && *(const any_u64 *)x == *(const any_u64 *)y; n -= 8)
        x += 8, y += 8;
    for (; n; n--, x++, y++)
        if (*x != *y)
            return *x - *y;
    return 0;
}

int bcmp(const void *a, const void *b, unsigned long n) { return memcmp(a, b, n); }

unsigned long strlen(const char *s) {
    unsigned long n = 0;
    while (s[n])
        n++;
    return n;
}

#endif
