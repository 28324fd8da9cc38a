// Closes every file it did not open, as daemons do, then goes on with threads.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *work(void *argument) {
    long sum = 0;
    for (long i = 0; i < 1000000; i++) sum += i ^ (long)argument;
    return (void *)sum;
}

int main(void) {
    if (close_range(3, ~0U, 0))
        for (int fd = 3; fd < 4096; fd++) close(fd);
    pthread_t threads[4];
    for (long i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i)) return 3;
    for (int i = 0; i < 4; i++) {
        void *sum;
        pthread_join(threads[i], &sum);
        printf("sum %d %ld\n", i, (long)sum);
    }
    return 0;
}
