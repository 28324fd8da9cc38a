// A program that is replaced while it runs, as by a build or an update: moves the file that it is
// given to the place of its own, and then lets two threads write to one line.
//
// Usage: replaced FILE
#include <pthread.h>
#include <stdio.h>

static _Alignas(64) volatile long counters[8];

static void *count(void *number) {
    volatile long *own = &counters[(long)number];
    for (int k = 0; k < 20000; k++)
        ++*own;
    return 0;
}

int main(int count_of_arguments, char **arguments) {
    if (count_of_arguments > 1 && rename(arguments[1], arguments[0])) {
        perror(arguments[1]);
        return 1;
    }
    pthread_t threads[2];
    for (long k = 0; k < 2; k++)
        pthread_create(&threads[k], 0, count, (void *)k);
    for (int k = 0; k < 2; k++)
        pthread_join(threads[k], 0);
}
