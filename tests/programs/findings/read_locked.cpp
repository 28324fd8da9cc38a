// A table that is read under a shared lock: readers do not exclude each other, but all of them
// count in the lock.
#include <cstdio>
#include <cstdlib>
#include <shared_mutex>
#include <thread>
#include <unordered_map>
#include <vector>

static std::unordered_map<int, int> table;
static std::shared_mutex lock;

static int find(int key) {
#ifndef FIXED
    std::shared_lock<std::shared_mutex> guard(lock); // @find
#endif
    auto found = table.find(key);
    return found == table.end() ? 0 : found->second;
} // @find

static void read(int self, long times, long *sum) {
    long mine = 0;
    unsigned key = static_cast<unsigned>(self);
#ifdef FIXED
    // The table does not change while it is read; the lock is taken once for all.
    std::shared_lock<std::shared_mutex> guard(lock);
#endif
    for (long k = 0; k < times; k++) {
        key = key * 1664525u + 1013904223u;
        mine += find(static_cast<int>(key >> 22)); // @find
    }
    *sum = mine;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? std::atoi(argv[1]) : 4;
    long times = argc > 2 ? std::atol(argv[2]) : 4000000;
    for (int k = 0; k < 1000; k++)
        table[k] = k * 3;
    std::vector<long> sums(static_cast<std::size_t>(threads));
    std::vector<std::thread> readers;
    for (int k = 0; k < threads; k++)
        readers.emplace_back(read, k, times, &sums[static_cast<std::size_t>(k)]);
    long sum = 0;
    for (int k = 0; k < threads; k++) {
        readers[static_cast<std::size_t>(k)].join();
        sum += sums[static_cast<std::size_t>(k)];
    }
    std::printf("%ld\n", sum);
}
