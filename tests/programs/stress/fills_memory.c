// Three threads, one after the other, write to each line of so many MiB.
// Usage: fills_memory MIB
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static volatile char *memory;
static size_t bytes;

static void *fill(void *unused) {
    for (size_t k = 0; k < bytes; k += 64) memory[k] = 1;
    return unused;
}

int main(int argc, char **argv) {
    bytes = argc > 1 ? (size_t)atol(argv[1]) << 20 : 1 << 20;
    memory = malloc(bytes);
    for (int k = 0; memory && k < 3; k++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, fill, NULL)) return 3;
        pthread_join(thread, NULL);
    }
    puts("done");
    return 0;
}
