// Blocks of every form: each keeps its contents and alignment however it is resized and freed.
// Prints "all well". With an argument, it sets a policy of its own first, for a thread or a block
// ("bound"), or a seccomp filter.
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 100000 };
char table[65536];

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            printf("line %d: %s\n", __LINE__, #condition);                                                   \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

static void fill(char *block, size_t bytes, char what) {
    for (size_t i = 0; i < bytes; i++)
        block[i] = (char)(what + i % 64);
}

static int is_filled(const char *block, size_t bytes, char what) {
    for (size_t i = 0; i < bytes; i++)
        if (block[i] != (char)(what + i % 64))
            return 0;
    return 1;
}

__attribute__((noinline)) static char *plain(size_t bytes) {
    char *block = malloc(bytes);
    CHECK(block && malloc_usable_size(block) >= bytes);
    fill(block, bytes, 'a');
    return block;
}

__attribute__((noinline)) static char *zeroed(size_t bytes) {
    char *block = calloc(bytes / 8, 8);
    for (size_t i = 0; i < bytes / 8 * 8; i++)
        CHECK(block[i] == 0);
    fill(block, bytes / 8 * 8, 'b');
    return block;
}

__attribute__((noinline)) static char *aligned(size_t align, size_t bytes) {
    char *block = aligned_alloc(align, bytes);
    CHECK((uintptr_t)block % align == 0);
    fill(block, bytes, 'c');
    return block;
}

__attribute__((noinline)) static char *posix(size_t align, size_t bytes) {
    void *block = NULL;
    CHECK(posix_memalign(&block, align, bytes) == 0 && (uintptr_t)block % align == 0);
    CHECK(posix_memalign(&block, 3, bytes) != 0);
    fill(block, bytes, 'd');
    return block;
}

__attribute__((noinline)) static char *grown(char *block, size_t bytes) { return realloc(block, bytes); }

__attribute__((noinline)) static char *in_turn(size_t bytes) { return malloc(bytes); }

__attribute__((noinline)) static char *by_child(size_t bytes) {
    char *block = malloc(bytes);
    fill(block, bytes, 'e');
    return block;
}

static char *shared[4];

static void *take(void *argument) {
    int thread = (int)(long)argument;
    for (int i = 0; i < 300; i++) {
        char *block = in_turn(BYTES - i);
        fill(block, BYTES - i, 'f');
        CHECK(is_filled(block, BYTES - i, 'f'));
        // Another thread may free it.
        char *other = __atomic_exchange_n(&shared[(thread + i) % 4], block, __ATOMIC_ACQ_REL);
        free(other);
    }
    return NULL;
}

static void resize(void) {
    char *block = grown(NULL, BYTES);
    fill(block, BYTES, 'g');
    size_t sizes[] = {BYTES + 10, 200000, 3000000, 120000, 90000, 100, 70000, 100000, 5000000};
    size_t known = BYTES;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        block = grown(block, sizes[k]);
        known = known < sizes[k] ? known : sizes[k];
        CHECK(is_filled(block, known, 'g'));
        fill(block, sizes[k], 'g');
        known = sizes[k];
    }
    free(block);
    block = reallocarray(plain(BYTES), 2, BYTES);
    CHECK(is_filled(block, BYTES, 'a'));
    CHECK(reallocarray(block, SIZE_MAX / 2, 4) == NULL);
    CHECK(is_filled(block, BYTES, 'a'));
    free(block);
}

static void forbid(int by_number) {
    // Everything is allowed, but who cannot see that asks for nothing any more.
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {1, &allow};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (by_number)
        CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
    else
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0);
}

int main(int count, char **arguments) {
    if (count > 1 && !strcmp(arguments[1], "policy")) {
        unsigned long nodes = 1;
        CHECK(syscall(SYS_set_mempolicy, 1, &nodes, 65) == 0);
    }
    char *before = plain(BYTES);
    if (count > 1 && !strcmp(arguments[1], "seccomp"))
        forbid(0);
    if (count > 1 && !strcmp(arguments[1], "seccomp by number"))
        forbid(1);
    if (count > 1 && !strcmp(arguments[1], "bound")) {
        // The pages that lie in the block as a whole.
        uintptr_t first = ((uintptr_t)before + 4095) / 4096 * 4096;
        unsigned long nodes = 1;
        CHECK(syscall(SYS_mbind, first, 20 * 4096, 2, &nodes, 65, 0) == 0);
    }
    char *blocks[] = {plain(BYTES), zeroed(BYTES), aligned(4096, 25 * 4096), posix(64, BYTES)};
    for (int k = 0; k < 4; k++)
        free(blocks[k]);
    free(zeroed(BYTES)); // What was used before is zero again.
    char *large = aligned(1 << 20, 100352);
    CHECK(is_filled(large, 100352, 'c'));
    free(large);
    resize();
    pthread_t threads[4];
    for (long t = 0; t < 4; t++)
        pthread_create(&threads[t], NULL, take, (void *)t);
    for (int t = 0; t < 4; t++)
        pthread_join(threads[t], NULL);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        char *block = by_child(BYTES);
        CHECK(is_filled(before, BYTES, 'a') && is_filled(block, BYTES, 'e'));
        free(block);
        free(before);
        before = plain(BYTES);
        free(before);
        _exit(7);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
    CHECK(is_filled(before, BYTES, 'a'));
    for (size_t i = 0; i < sizeof table; i++)
        table[i] = 1;
    puts("all well");
    return 0;
}
