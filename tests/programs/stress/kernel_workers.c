// A program of one thread and one more, for which the kernel reads a file in workers of its own
// (io_uring).
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ENTRIES = 8, ROUNDS = 2000 };

static char buffers[ENTRIES][4096];

static char *map(int ring, size_t bytes, off_t what) {
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, what);
    if (at == MAP_FAILED) exit(3);
    return at;
}

static long reads(const char *file) {
    struct io_uring_params p = {0};
    int ring = syscall(SYS_io_uring_setup, ENTRIES, &p), from = open(file, O_RDONLY);
    if (ring < 0 || from < 0) {
        printf("no io_uring\n");
        exit(0);
    }
    char *sq = map(ring, p.sq_off.array + p.sq_entries * 4, IORING_OFF_SQ_RING);
    char *cq = map(ring, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
    struct io_uring_sqe *sqes = (void *)map(ring, p.sq_entries * sizeof *sqes, IORING_OFF_SQES);
    uint32_t *tail = (void *)(sq + p.sq_off.tail), *array = (void *)(sq + p.sq_off.array);
    uint32_t *head = (void *)(cq + p.cq_off.head), *end = (void *)(cq + p.cq_off.tail);
    struct io_uring_cqe *cqes = (void *)(cq + p.cq_off.cqes);
    long bytes = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < ENTRIES; i++) {
            struct io_uring_sqe *e = &sqes[i];
            memset(e, 0, sizeof *e);
            e->opcode = IORING_OP_READ, e->flags = IOSQE_ASYNC, e->fd = from;
            e->addr = (uintptr_t)buffers[i], e->len = sizeof buffers[i];
            array[(*tail + i) % ENTRIES] = i;
        }
        __atomic_store_n(tail, *tail + ENTRIES, __ATOMIC_RELEASE);
        syscall(SYS_io_uring_enter, ring, ENTRIES, ENTRIES, IORING_ENTER_GETEVENTS, NULL, 0);
        for (; *head != __atomic_load_n(end, __ATOMIC_ACQUIRE); ++*head)
            bytes += cqes[*head & (p.cq_entries - 1)].res > 0;
    }
    return bytes;
}

static void *worker(void *file) {
    return (void *)(intptr_t)reads(file);
}

int main(int argc, char **argv) {
    (void)argc;
    pthread_t other;
    void *more;
    pthread_create(&other, NULL, worker, argv[0]);
    long mine = reads(argv[0]);
    pthread_join(other, &more);
    printf("%ld reads\n", mine + (intptr_t)more);
    return 0;
}
