// A library with a table, and with functions that allocate; -DTABLE=name.
#include <stdlib.h>
#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)
_Alignas(64) char TABLE[6400];
__attribute__((noinline)) static void *JOIN(make_, TABLE)(size_t bytes) { return calloc(bytes, 1); }
void *make(size_t bytes) {
    char *block = JOIN(make_, TABLE)(bytes);
    return block;
}
