// Thread 1 writes a number of lines, and then thread 2 reads them: as many lines as there are go
// from one to the other. The memory is of one kind or the other.
//
// Usage: passed private|shared LINES
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LINE = 64 };

static volatile char *memory;
static long lines;

static void *write_lines(void *argument) {
    for (long k = 0; k < lines; k++) memory[k * LINE] = 1;
    return argument;
}

static void *read_lines(void *argument) {
    for (long k = 0; k < lines; k++) (void)memory[k * LINE];
    return argument;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    int shared = !strcmp(argv[1], "shared");
    lines = atol(argv[2]);
    int flags = (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS;
    memory = mmap(NULL, (size_t)lines * LINE, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED) return 3;
    void *(*does[])(void *) = {write_lines, read_lines};
    pthread_t thread;
    for (int k = 0; k < 2; k++)
        if (pthread_create(&thread, NULL, does[k], NULL) || pthread_join(thread, NULL)) return 4;
    return 0;
}
