// Not position independent, with static data that fills the low 2 GiB: no shadow fits a
// displacement, and no code cache is near the program.
#include <pthread.h>
#include <stdio.h>

enum { LINES = 1000 };
static char data[2600000000ul];
static char *const far_end = data + 2500000000ul;

static void *work(void *unused) {
    for (long i = 0; i < LINES; i++)
        far_end[i * 64] = (char)i;
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    pthread_join(thread, 0);
    long sum = 0;
    for (long i = 0; i < LINES; i++)
        sum += far_end[i * 64];
    printf("%ld\n", sum);
    return 0;
}
