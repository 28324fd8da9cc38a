// A program that replaces itself by exec, a few generations deep, the first time while it has
// threads; it also checks that its environment is what it was given: nothing added, nothing lost.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static void *forever(void *argument) {
    for (;;) pause();
    return argument;
}

int main(int argc, char **argv) {
    int generation = argc > 1 ? atoi(argv[1]) : 0;
    int foreign = 0;
    for (char **variable = environ; *variable; variable++)
        foreign += strstr(*variable, "LD_PRELOAD") != NULL || strstr(*variable, "SESSION=/proc");
    printf("generation %d preloads %d\n", generation, foreign);
    fflush(stdout);
    if (generation == 3) return 42;
    pthread_t thread;
    if (pthread_create(&thread, NULL, forever, NULL)) return 3;
    char next[16];
    snprintf(next, sizeof next, "%d", generation + 1);
    execl("/proc/self/exe", argv[0], next, (char *)NULL);
    return 4;
}
