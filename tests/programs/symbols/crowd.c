// More lines than a thread keeps events of, and then a line that gets hot: the main thread reads what a
// worker has written to LINES lines, then both meet ROUNDS times on one more. Prints "hot ADDRESS".
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

enum { LINES = 40000, LINE = 64, ROUNDS = 4000 };

static _Alignas(4096) volatile char crowd[LINES * LINE];
static _Alignas(64) volatile long hot[8];
static sem_t mine, yours;

static void *worker(void *argument) {
    (void)argument;
    for (int k = 0; k < LINES; k++) crowd[k * LINE] = 1;
    sem_post(&mine);
    for (int round = 0; round < ROUNDS; round++) {
        sem_wait(&yours);
        hot[0]++;
        sem_post(&mine);
    }
    return NULL;
}

int main(void) {
    pthread_t thread;
    long sum = 0;
    sem_init(&mine, 0, 0);
    sem_init(&yours, 0, 0);
    if (pthread_create(&thread, NULL, worker, NULL)) return 3;
    sem_wait(&mine);
    for (int k = 0; k < LINES; k++) sum += crowd[k * LINE];
    for (int round = 0; round < ROUNDS; round++) {
        sem_post(&yours);
        sem_wait(&mine);
        sum += hot[0];
    }
    pthread_join(thread, NULL);
    printf("hot %p\n", (void *)hot);
    return sum < LINES;
}
