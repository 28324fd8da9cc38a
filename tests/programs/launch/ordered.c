// Threads started one after another, N in all with the initial one: each prints the CPUs to which it
// is really bound, from /proc.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char masks[64][64];

static void *look(void *slot) {
    char line[256] = "";
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
    // Created before any is waited for, so that their order is that of their creation.
    for (int i = 1; i < count; i++) pthread_create(&threads[i], NULL, look, masks[i]);
    for (int i = 1; i < count; i++) pthread_join(threads[i], NULL);
    look(masks[0]);
    for (int i = 0; i < count; i++) printf("thread %d: real %s\n", i, masks[i]);
    return 0;
}
