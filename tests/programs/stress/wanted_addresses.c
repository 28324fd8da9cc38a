// Reserves what language runtimes ask for by address, some of which do not start without, and uses
// it.
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>

#define GIB (1ul << 30)
#define TIB (1ul << 40)

static const struct {
    const char *who;
    unsigned long start, bytes;
} wanted[] = {
    {"the JVM's heap, compressed pointers without a base", 4 * GIB, 28 * GIB},
    {"GHC's heap", 264 * GIB, 256 * GIB},
    {"Go's arenas", 0xc000000000, GIB},
    {"ZGC, first view", 4 * TIB, 4 * TIB},
    {"ZGC, second view", 8 * TIB, 4 * TIB},
    {"ZGC, third view", 16 * TIB, 4 * TIB},
    {"AddressSanitizer's shadow", 0x7fff8000, 16 * TIB},
};

int main(void) {
    for (unsigned long i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *start = (void *)wanted[i].start;
        char *got = mmap(start, wanted[i].bytes, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (got == MAP_FAILED)
            return perror(wanted[i].who), 1;
        char *middle = got + wanted[i].bytes / 2;
        if (mprotect(middle, 4096, PROT_READ | PROT_WRITE))
            return perror("mprotect"), 1;
        for (int k = 0; k < 4096; k++)
            middle[k] = (char)k;
        printf("%s: %s %d\n", wanted[i].who, got == start ? "there" : "elsewhere", middle[77]);
        munmap(got, wanted[i].bytes);
    }
    return 0;
}
