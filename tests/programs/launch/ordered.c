// Threads started one after another, N in all with the initial one: each prints the CPUs to which
// it is really bound, from /proc. They look when all have been created, since some launchers bind a
// thread from its creator.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char masks[64][64];
static pthread_barrier_t created;

static void *look(void *slot) {
    char line[256] = "";
    pthread_barrier_wait(&created);
    FILE *status = fopen("/proc/thread-self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "Cpus_allowed_list:", 18)) break;
    if (status) fclose(status);
    line[strcspn(line, "\n")] = 0;
    snprintf(slot, sizeof masks[0], "%s", line + 19);
    return NULL;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 2;
    pthread_t threads[64];
    pthread_barrier_init(&created, NULL, count);
    for (int i = 1; i < count; i++) pthread_create(&threads[i], NULL, look, masks[i]);
    look(masks[0]);
    for (int i = 1; i < count; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < count; i++) printf("thread %d: real %s\n", i, masks[i]);
    return 0;
}
