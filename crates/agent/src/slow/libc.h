// Functions that the compiler may turn loops into.
#ifndef TT_LIBC_H
#define TT_LIBC_H

void *memcpy(void *to, const void *from, unsigned long n) {
    void *start = to;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
    return start;
}

void *memmove(void *to, const void *from, unsigned long n) {
    char *d = to;
    const char *s = from;
    if (d <= s || d >= s + n)
        return memcpy(to, from, n);
    while (n--)
        d[n] = s[n];
    return to;
}

void *memset(void *to, int value, unsigned long n) {
    void *start = to;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(value) : "memory");
    return start;
}

int memcmp(const void *a, const void *b, unsigned long n) {
    const unsigned char *x = a, *y = b;
    for (unsigned long k = 0; k < n; k++)
        if (x[k] != y[k])
            return x[k] - y[k];
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
