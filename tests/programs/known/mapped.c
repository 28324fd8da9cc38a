// Two processes that map one file again and again and write to each of its pages, for a given time.
// Each mapping is new, so that each page faults in both.
//
//   mapped SECONDS
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGES = 256, PAGE = 4096 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static int work(int file, double end) {
    while (now() < end) {
        char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (memory == MAP_FAILED) return 1;
        for (int page = 0; page < PAGES; page++) ((volatile char *)memory)[page * PAGE]++;
        // Time for others to look at where it is mapped.
        usleep(100000);
        munmap(memory, PAGES * PAGE);
    }
    return 0;
}

int main(int argc, char **argv) {
    double end = now() + (argc > 1 ? atof(argv[1]) : 2);
    FILE *file = tmpfile();
    if (!file || ftruncate(fileno(file), PAGES * PAGE)) return 2;
    pid_t child = fork();
    if (child < 0) return 3;
    int failed = work(fileno(file), end);
    if (child == 0) return failed;
    int status = 0;
    waitpid(child, &status, 0);
    return failed || status != 0;
}
