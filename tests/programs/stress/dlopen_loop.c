// Loads, calls and unloads a library in a loop, with another thread at work: its code comes back at
// the same addresses or at others, and stale translations of it must not be run.
// Usage: dlopen_loop LIBRARY-A LIBRARY-B (built from plugin.c, at different optimisation levels)
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static const char *libraries[2];

static long load_and_call(const char *library, int round) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        return -1000000;
    }
    int (*plugin)(int) = (int (*)(int))dlsym(handle, "plugin");
    long sum = 0;
    for (int i = 0; i < 50; i++) sum += plugin(i + round);
    dlclose(handle);
    return sum;
}

static void *loop(void *argument) {
    long sum = 0;
    for (int round = 0; round < 200; round++) sum += load_and_call(libraries[round % 2], round);
    *(long *)argument = sum;
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    libraries[0] = argv[1], libraries[1] = argv[2];
    pthread_t threads[2];
    long sums[2];
    // One after the other: which thread unloads last would otherwise change what a call returns.
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&threads[i], NULL, loop, &sums[i])) return 3;
        pthread_join(threads[i], NULL);
    }
    printf("sums %ld %ld\n", sums[0], sums[1]);
    return 0;
}
