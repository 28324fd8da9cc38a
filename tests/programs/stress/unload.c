// Takes a library away while threads run in it: each must find itself where nothing is mapped any
// more and fault there, whether it was in a loop or came back from a call. Usage: unload LIBRARY
// WAY, where WAY is "turn" or "call".
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile long turns;
static uintptr_t start;
static int pipe_ends[2];

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)context;
    uintptr_t at = (uintptr_t)info->si_addr;
    const char *text = signal == SIGSEGV && at - start < 1 << 20 ? "fault where the library was\n" : "elsewhere\n";
    if (write(1, text, strlen(text)) < 0) _exit(9);
    _exit(7);
}

static void wait_here(void) {
    char byte;
    turns = 1000;
    if (read(pipe_ends[0], &byte, 1) != 1) _exit(8);
}

static void *run(void *function) {
    ((void (*)(volatile long *, void (*)(void)))function)(&turns, wait_here);
    return NULL;
}

int main(int argc, char **argv) {
    void *library = dlopen(argv[1], RTLD_NOW);
    void *function = library && argc > 2 ? dlsym(library, argv[2]) : NULL;
    if (!function || pipe(pipe_ends)) return 3;
    start = (uintptr_t)function & ~0xfffful;
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, function)) return 4;
    while (turns < 1000) {}
    usleep(20000);
    dlclose(library);
    if (write(pipe_ends[1], "x", 1) != 1) return 5;
    pthread_join(thread, NULL);
    puts("still running");
    return 0;
}
