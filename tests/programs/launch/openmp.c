// OpenMP under a plan: the runtime must count all CPUs, before and after it has been bound.
//
// Prints the number of CPUs that the runtime and the program see, then for each thread the CPUs
// that it is really bound to (from /proc, which nobody stands in front of).
#define _GNU_SOURCE
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void real_mask(char *text, size_t size) {
    FILE *status = fopen("/proc/thread-self/status", "r");
    while (status && fgets(text, (int)size, status))
        if (!strncmp(text, "Cpus_allowed_list:", 18)) break;
    if (status) fclose(status);
    memmove(text, text + 19, strlen(text + 18));
    text[strcspn(text, "\n")] = 0;
}

static int shown(void) {
    cpu_set_t mask;
    sched_getaffinity(0, sizeof mask, &mask);
    return CPU_COUNT(&mask);
}

int main(int argc, char **argv) {
    // A slow start lets the launcher bind the initial thread before the runtime looks.
    (void)argv;
    if (argc > 1) usleep(400000);
    char masks[4][64];
    int counts[4];
    printf("procs before %d, shown %d\n", omp_get_num_procs(), shown());
#pragma omp parallel num_threads(4)
    {
        real_mask(masks[omp_get_thread_num()], 64);
        counts[omp_get_thread_num()] = shown();
    }
    for (int i = 0; i < 4; i++) printf("thread %d: real %s, shown %d\n", i, masks[i], counts[i]);
    printf("procs after %d\n", omp_get_num_procs());
    return 0;
}
