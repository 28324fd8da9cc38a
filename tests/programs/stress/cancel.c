// Threads cancelled while they wait in system calls: the handler of the runtime unwinds the stack
// from inside a signal frame, through the interrupted system call.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { THREADS = 8 };
static int pipes[2], cleaned;

static void clean(void *unused) {
    (void)unused;
    __atomic_add_fetch(&cleaned, 1, __ATOMIC_RELAXED);
}

static void *wait_forever(void *argument) {
    char byte;
    pthread_cleanup_push(clean, 0);
    if (argument)
        pause();
    else if (read(pipes[0], &byte, 1) < 0)
        perror("read");
    pthread_cleanup_pop(0);
    return 0;
}

int main(void) {
    pthread_t threads[THREADS];
    int cancelled = 0;
    if (pipe(pipes))
        return 1;
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, wait_forever, (void *)(i % 2));
    usleep(50000);
    for (int i = 0; i < THREADS; i++)
        pthread_cancel(threads[i]);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        cancelled += result == PTHREAD_CANCELED;
    }
    printf("%d cancelled, %d cleaned up\n", cancelled, cleaned);
    return 0;
}
