// Threads compute, and now and then allocate and free without a system call: by malloc, realloc,
// posix_memalign and operator new, which also fails and throws. Each looks whether its memory holds
// what it wrote. Again and again the first thread allocates counters, by one of two functions in
// turn, which all threads then use.
//
// Argument: rounds.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <execinfo.h>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int THREADS = 4;
constexpr int COUNTERS = 40;

struct Counters {
    volatile long of[8];
};

Counters *volatile current;
long wrong, thrown;

[[gnu::noinline]] Counters *make_one() { return new Counters(); }

[[gnu::noinline]] Counters *make_two() { return static_cast<Counters *>(calloc(1, sizeof(Counters))); }

void expect(bool right) {
    if (!right)
        __sync_fetch_and_add(&wrong, 1);
}

void compute() {
    volatile double x = 1;
    for (int k = 0; k < 20000; k++)
        x = x * 1.0000001;
}

void fail_to_allocate() {
    try {
        volatile size_t huge = ~size_t(0) / 4;
        free(new char[huge]);
        expect(false);
    } catch (const std::bad_alloc &) { __sync_fetch_and_add(&thrown, 1); }
}

void work(int id, long rounds) {
    std::vector<char *> mine;
    for (long round = 0; round < rounds; round++) {
        compute();
        size_t bytes = 16 + size_t(round) * 37 % 500;
        auto *block = static_cast<char *>(malloc(bytes));
        memset(block, id + 1, bytes);
        block = static_cast<char *>(realloc(block, 2 * bytes));
        for (size_t k = 0; k < bytes; k++)
            expect(block[k] == id + 1);
        void *aligned = nullptr;
        expect(posix_memalign(&aligned, 64, 256) == 0 && size_t(aligned) % 64 == 0);
        memset(aligned, id, 256);
        free(aligned);
        expect(std::string(bytes, 'x').size() == bytes);
        mine.push_back(block);
        if (mine.size() > 50) {
            free(mine.front());
            mine.erase(mine.begin());
        }
        if (round % 100 == 0)
            fail_to_allocate();
        void *frames[20];
        if (round % 100 == 50)
            expect(backtrace(frames, 20) >= 3);
        if (id == 0 && round % (rounds / COUNTERS) == 0)
            current = round / (rounds / COUNTERS) % 2 ? make_two() : make_one();
        if (current)
            current->of[id]++;
    }
    for (char *block : mine)
        free(block);
}

} // namespace

int main(int, char **arguments) {
    std::vector<std::thread> threads;
    for (int id = 0; id < THREADS; id++)
        threads.emplace_back(work, id, atol(arguments[1]));
    for (std::thread &thread : threads)
        thread.join();
    printf("%ld wrong, %ld thrown\n", wrong, thrown);
    return wrong != 0;
}
