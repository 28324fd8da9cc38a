// Walks over arrays in step, one byte at a time from each, so that their current lines lie in the
// same set of a cache. Usage: walk ARRAYS KIB: arrays of so many KiB, a power of two.
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    size_t arrays = argc > 1 ? strtoul(argv[1], 0, 10) : 3;
    size_t bytes = (argc > 2 ? strtoul(argv[2], 0, 10) : 1024) << 10;
    volatile unsigned char *all = aligned_alloc(bytes, arrays * bytes);
    unsigned sum = 0;
    for (size_t i = 0; i < bytes; i++)
        for (size_t array = 0; array < arrays; array++)
            sum += all[array * bytes + i] + 1u;
    printf("%u\n", sum);
    return 0;
}
