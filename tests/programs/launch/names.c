// Threads that only their names tell apart: one start routine, created in the order that the first
// argument gives, a letter each; every thread names itself after its letter and prints where it is
// bound. "helper" threads (letter h) come in between, as a runtime might start them.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void *named(void *argument) {
    char name[16] = "worker-?", text[128];
    name[7] = *(char *)argument;
    pthread_setname_np(pthread_self(), name);
    FILE *status = fopen("/proc/thread-self/status", "r");
    while (status && fgets(text, sizeof text, status))
        if (!strncmp(text, "Cpus_allowed_list:", 18)) printf("%s %s", name, text + 19);
    if (status) fclose(status);
    return NULL;
}

int main(int argc, char **argv) {
    for (char *letter = argc > 1 ? argv[1] : ""; *letter; letter++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, named, letter)) return 1;
        pthread_join(thread, NULL);
    }
    return 0;
}
