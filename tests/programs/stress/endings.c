// All ways to end. Usage: endings HOW, after two threads have done a known piece of work:
//   exit N | _exit N | return N | abort | kill | segv | alarm | thread-exit | cancel | atexit
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile long *shared;
static int *volatile unmapped = (int *)8;
static pthread_barrier_t barrier;

static void *writer(void *argument) {
    for (int i = 0; i < 4096; i++) shared[i] = i;
    pthread_barrier_wait(&barrier);
    return argument;
}

static void *reader(void *argument) {
    long sum = 0;
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 4096; i++) sum += shared[i];
    *(long *)argument = sum;
    return argument;
}

static void cleanup(void *argument) { printf("cleaned up %s\n", (const char *)argument); }

static void *cancelled(void *argument) {
    pthread_cleanup_push(cleanup, argument);
    for (;;) pause();
    pthread_cleanup_pop(0);
    return NULL;
}

static void *late(void *argument) {
    usleep(50000);
    printf("the last thread ends the program\n");
    return argument;
}

static void goodbye(void) { printf("goodbye\n"); }

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "return";
    int code = argc > 2 ? atoi(argv[2]) : 0;
    shared = mmap(NULL, 32768, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_t threads[2], other;
    long sum;
    if (pthread_create(&threads[0], NULL, writer, NULL)) return 3;
    if (pthread_create(&threads[1], NULL, reader, &sum)) return 3;
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    printf("sum %ld\nexpect raw 1 2 512\n", sum);
    fflush(stdout);
    if (!strcmp(how, "exit")) exit(code);
    if (!strcmp(how, "_exit")) _exit(code);
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "kill")) raise(SIGKILL);
    if (!strcmp(how, "segv")) *unmapped = 1;
    if (!strcmp(how, "alarm")) {
        alarm(1);
        for (;;) pause();
    }
    if (!strcmp(how, "thread-exit")) {
        if (pthread_create(&other, NULL, late, NULL)) return 3;
        pthread_exit(NULL);
    }
    if (!strcmp(how, "cancel")) {
        if (pthread_create(&other, NULL, cancelled, "thread")) return 3;
        usleep(20000);
        pthread_cancel(other);
        pthread_join(other, NULL);
    }
    if (!strcmp(how, "atexit")) atexit(goodbye);
    return code;
}
