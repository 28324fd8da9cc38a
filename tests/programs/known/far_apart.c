// Memory whose blocks share a place in the maps of grants: two mappings 2^32 blocks apart, the
// second one made when the first is in use, the third reserved and made usable later. Thread 0
// writes the same lines of each, thread 1 reads them, round by round. With `shared` the other two
// are segments of System V shared memory.
//
// Usage: far_apart BLOCK [shared]
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>

enum { BLOCKS = 512, ROUNDS = 4 };

static size_t block = 64;
static volatile char *memory[3];
static pthread_barrier_t barrier;

static char *map(char *at, size_t bytes, int protection) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    char *got = mmap(at, bytes, protection, flags, -1, 0);
    return got == at ? got : NULL;
}

static char *attach(char *at, size_t bytes) {
    int id = shmget(IPC_PRIVATE, bytes, IPC_CREAT | 0600);
    char *got = shmat(id, at, 0);
    shmctl(id, IPC_RMID, NULL);
    return got == at ? got : NULL;
}

static void write_all(int k) {
    for (size_t b = 0; b < BLOCKS; b++) memory[k][b * block]++;
}

static void *reader(void *unused) {
    char sum = 0;
    for (int round = 0; round < ROUNDS; round++)
        for (int k = 0; k < 3; k++) {
            pthread_barrier_wait(&barrier);
            for (size_t b = 0; b < BLOCKS; b++) sum += memory[k][b * block];
            pthread_barrier_wait(&barrier);
        }
    return (void *)(long)(sum & 0 & (long)unused);
}

int main(int argc, char **argv) {
    if (argc > 1) block = (size_t)atol(argv[1]);
    size_t bytes = BLOCKS * block, apart = block << 32;
    char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    memory[0] = start;
    write_all(0);
    for (int k = 1; k < 3; k++) {
        char *at = NULL;
        for (size_t n = 1; n < 32 && !at; n++) {
            char *wanted = start - n * apart;
            at = argc > 2 ? attach(wanted, bytes)
                                    : map(wanted, bytes, k == 1 ? PROT_READ | PROT_WRITE : PROT_NONE);
        }
        if (!at) return 77;
        if (k == 2 && argc == 2) mprotect(at, bytes, PROT_READ | PROT_WRITE);
        memory[k] = at;
    }
    pthread_create(&thread, NULL, reader, NULL);
    for (int round = 0; round < ROUNDS; round++)
        for (int k = 0; k < 3; k++) {
            write_all(k);
            pthread_barrier_wait(&barrier);
            pthread_barrier_wait(&barrier);
        }
    pthread_join(thread, NULL);
    printf("expect raw 0 1 %d\n", 3 * BLOCKS * ROUNDS);
    printf("expect invalidation 0 1 %d\n", 3 * BLOCKS * (ROUNDS - 1));
    return 0;
}
