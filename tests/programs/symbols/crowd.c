// More lines than a thread keeps events of, a line that was hot before and one that gets hot
// afterwards: the main thread reads what a worker has written to LINES lines; EARLY times before
// and ROUNDS times afterwards both meet on one more. Compiled with DOWN, it reads the crowd while
// string instructions go down (DF in the flags), which is nothing to it. Prints "hot ADDRESS
// ADDRESS".
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

enum { LINES = 40000, LINE = 64, ROUNDS = 4000, EARLY = 500 };

#ifdef DOWN
#define BEGIN_CROWD __asm__ volatile("std" : : : "memory", "cc")
#define END_CROWD __asm__ volatile("cld" : : : "memory", "cc")
#else
#define BEGIN_CROWD
#define END_CROWD
#endif

static _Alignas(4096) volatile char crowd[LINES * LINE];
static _Alignas(64) volatile long hot[8], early[8];
static sem_t mine, yours;

// The worker's part in meeting on a line, so often.
static void give(volatile long *line, int rounds) {
    for (int round = 0; round < rounds; round++) {
        sem_wait(&yours);
        line[0]++;
        sem_post(&mine);
    }
}

// The main thread's part.
static long take(volatile long *line, int rounds) {
    long sum = 0;
    for (int round = 0; round < rounds; round++) {
        sem_post(&yours);
        sem_wait(&mine);
        sum += line[0];
    }
    return sum;
}

static void *worker(void *argument) {
    (void)argument;
    give(early, EARLY);
    for (int k = 0; k < LINES; k++) crowd[k * LINE] = 1;
    sem_post(&mine);
    give(hot, ROUNDS);
    return NULL;
}

int main(void) {
    pthread_t thread;
    sem_init(&mine, 0, 0);
    sem_init(&yours, 0, 0);
    if (pthread_create(&thread, NULL, worker, NULL)) return 3;
    long sum = take(early, EARLY);
    sem_wait(&mine);
    BEGIN_CROWD;
    for (int k = 0; k < LINES; k++) sum += crowd[k * LINE];
    END_CROWD;
    sum += take(hot, ROUNDS);
    pthread_join(thread, NULL);
    printf("hot %p %p\n", (void *)hot, (void *)early);
    return sum < LINES;
}
