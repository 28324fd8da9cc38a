// Threads of every form under a plan, one after the other, and everything that a program can do
// about affinity itself. Each line says who speaks, the CPUs it is really bound to (from /proc,
// which nobody stands in front of), and how many it is shown by the library and by syscall().
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

static std::string real_mask() {
    std::ifstream status("/proc/thread-self/status");
    std::string line;
    while (std::getline(status, line))
        if (line.rfind("Cpus_allowed_list:", 0) == 0) return line.substr(19);
    return "?";
}

static int shown() {
    cpu_set_t mask;
    sched_getaffinity(0, sizeof mask, &mask);
    cpu_set_t same;
    pthread_getaffinity_np(pthread_self(), sizeof same, &same);
    return CPU_EQUAL(&mask, &same) ? CPU_COUNT(&mask) : -1;
}

static int shown_raw() {
    unsigned long words[16] = {0};
    long bytes = syscall(SYS_sched_getaffinity, 0, sizeof words, words);
    int count = 0;
    for (long i = 0; i < bytes / 8; i++) count += __builtin_popcountl(words[i]);
    return count;
}

static void say(const char *who) {
    printf("%s: real %s, shown %d, raw %d\n", who, real_mask().c_str(), shown(), shown_raw());
    fflush(stdout);
}

static void *leaves(void *who) {
    say((const char *)who);
    pthread_exit((void *)7);
}

static void *canceled(void *who) {
    say((const char *)who);
    for (;;) sleep(10);
}

static int c11(void *who) {
    say((const char *)who);
    return 5;
}

// Asks for everything (no wish), then for CPU 0 only (a wish), then for everything again.
static void *wishes(void *) {
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    pthread_setaffinity_np(pthread_self(), sizeof all, &all);
    say("no wish");
    syscall(SYS_sched_setaffinity, 0, sizeof one, &one);
    say("a wish");
    sched_setaffinity(0, sizeof all, &all);
    say("wish withdrawn");
    return nullptr;
}

static void *keeps_wish(void *) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    sched_setaffinity(0, sizeof one, &one);
    say("wish kept");
    return nullptr;
}

int main() {
    pthread_t thread;
    void *result;
    say("main before");
    pthread_create(&thread, nullptr, leaves, (void *)"T1 pthread_exit");
    pthread_join(thread, &result);
    printf("result %ld\n", (long)result);
    say("main after");
    pthread_create(&thread, nullptr, canceled, (void *)"T2 canceled");
    usleep(50000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("canceled %d\n", result == PTHREAD_CANCELED);
    thrd_t standard;
    int code;
    thrd_create(&standard, c11, (void *)"T3 thrd_create");
    thrd_join(standard, &code);
    printf("result %d\n", code);
    std::thread([] {
        try {
            throw std::runtime_error("T4 std::thread");
        } catch (std::exception &error) {
            say(error.what());
        }
    }).join();
    pthread_create(&thread, nullptr, wishes, nullptr);
    pthread_join(thread, nullptr);
    pthread_create(&thread, nullptr, keeps_wish, nullptr);
    pthread_join(thread, nullptr);
    pthread_attr_t attributes;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    pthread_attr_init(&attributes);
    pthread_attr_setaffinity_np(&attributes, sizeof one, &one);
    pthread_create(&thread, &attributes, leaves, (void *)"T7 attributes");
    pthread_join(thread, nullptr);
    pthread_create(&thread, nullptr, leaves, (void *)"not in the plan");
    pthread_join(thread, nullptr);

    const char *sed = "sed -n 's/Cpus_allowed_list:/child system:/p' /proc/self/status";
    if (system(sed)) return 9;
    FILE *pipe = popen("sed -n 's/Cpus_allowed_list:/child popen:/p' /proc/self/status", "r");
    char line[100];
    while (fgets(line, sizeof line, pipe)) fputs(line, stdout);
    pclose(pipe);
    fflush(stdout);
    const char *script = "s/Cpus_allowed_list:/child vfork execv:/p";
    if (vfork() == 0) {
        const char *arguments[] = {"sed", "-n", script, "/proc/self/status", nullptr};
        execv("/bin/sed", (char **)arguments);
        _exit(1);
    }
    wait(nullptr);
    if (fork() == 0) {
        say("forked");
        std::thread([] { say("thread of forked"); }).join();
        const char *arguments[] = {"sh", "-c", "echo environment $LD_PRELOAD $THREADTALK_LAUNCH.",
                                   nullptr};
        execv("/bin/sh", (char **)arguments);
        _exit(1);
    }
    wait(nullptr);
    say("main end");
    return 6;
}
