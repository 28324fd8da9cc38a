// The patterns of patterns.h on POSIX threads, with barriers that share no memory: each participant
// waits on an eventfd of its own, so that the data's events are all there is but for the start and
// end of threads. The initial thread only coordinates; participants are threads 1 to N.
//
// An optional last argument says how the program ends once its threads are done and its truth is
// printed: return (default), exit0 (_exit), abort, kill (SIGKILL), segv, or stay (participants are
// never released from their last barrier when the process exits).
#include "patterns.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

static Setup setup;
static uint64_t *regions;
static int arrived, go[MAX_PARTICIPANTS];
static struct {
    _Alignas(4096) uint64_t sum;
} results[MAX_PARTICIPANTS];

static void wait_on(int fd, uint64_t wanted) {
    for (uint64_t got = 0, value; got < wanted; got += value)
        if (read(fd, &value, 8) != 8) _exit(3);
}

static void post(int fd) {
    uint64_t one = 1;
    if (write(fd, &one, 8) != 8) _exit(3);
}

static void barrier(int p) {
    post(arrived);
    wait_on(go[p], 1);
}

static void *participant(void *argument) {
    int p = (int)(intptr_t)argument;
    uint64_t sum = 0;
    barrier(p);
    for (int round = 0; round < setup.rounds; round++) {
        sum += write_half(&setup, regions, p, round);
        barrier(p);
        sum += read_half(&setup, regions, p);
        barrier(p);
    }
    results[p].sum = sum;
    barrier(p);
    return NULL;
}

static int *volatile unmapped = (int *)8;

static void end(const char *how) {
    fflush(stdout);
    if (!strcmp(how, "exit0")) _exit(0);
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "kill")) raise(SIGKILL);
    if (!strcmp(how, "segv")) *unmapped = 1;
}

int main(int argc, char **argv) {
    setup = read_setup(argc, argv, 1);
    const char *ending = argc > 6 ? argv[6] : "return";
    regions = map_regions(&setup);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files); // one for each participant
    arrived = eventfd(0, 0);
    pthread_t threads[MAX_PARTICIPANTS];
    for (int p = 0; p < setup.participants; p++) go[p] = eventfd(0, 0);
    for (int p = 0; p < setup.participants; p++)
        if (pthread_create(&threads[p], NULL, participant, (void *)(intptr_t)p)) return 3;
    int barriers = 2 * setup.rounds + 2;
    for (int b = 0; b < barriers; b++) {
        wait_on(arrived, (uint64_t)setup.participants);
        if (b == barriers - 1) break;
        for (int p = 0; p < setup.participants; p++) post(go[p]);
    }
    for (int p = 0; p < setup.participants; p++)
        printf("checksum %d %llu\n", p, (unsigned long long)results[p].sum);
    print_expected(&setup);
    if (!strcmp(ending, "stay")) return 0;
    for (int p = 0; p < setup.participants; p++) post(go[p]);
    for (int p = 0; p < setup.participants; p++) pthread_join(threads[p], NULL);
    end(ending);
    return 0;
}
