// A thread pool with one queue behind one mutex, and tasks that are over at once.
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#ifdef FIXED
static const long BATCH = 2000;
#else
static const long BATCH = 1;
#endif

class Pool {
  public:
    void add(long first) {
        std::lock_guard<std::mutex> guard(lock); // @add
        tasks.push_back(first); // @add
        ready.notify_one(); // @add
    } // @add

    void close() {
        std::lock_guard<std::mutex> guard(lock);
        closed = true;
        ready.notify_all();
    }

    bool take(long &first) {
        std::unique_lock<std::mutex> guard(lock); // @take
        ready.wait(guard, [this] { return closed || !tasks.empty(); }); // @take
        if (tasks.empty()) // @take
            return false;
        first = tasks.front(); // @take
        tasks.pop_front(); // @take
        return true;
    } // @take

  private:
    std::mutex lock;
    std::condition_variable ready;
    std::deque<long> tasks;
    bool closed = false;
};

static Pool pool;

static long task(long number) {
    unsigned long x = static_cast<unsigned long>(number) * 2654435761UL;
    for (int k = 0; k < 40; k++)
        x = x * 31 + 7;
    return static_cast<long>(x % 10);
}

static void work(long *sum) {
    long first, mine = 0;
    while (pool.take(first)) // @take
        for (long k = first; k < first + BATCH; k++)
            mine += task(k);
    *sum = mine;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? std::atoi(argv[1]) : 4;
    long tasks = argc > 2 ? std::atol(argv[2]) : 1000000;
    std::vector<long> sums(static_cast<std::size_t>(threads) * 64);
    std::vector<std::thread> workers;
    for (int k = 0; k < threads; k++)
        workers.emplace_back(work, &sums[static_cast<std::size_t>(k) * 64]);
    for (long first = 0; first < tasks; first += BATCH)
        pool.add(first); // @add
    pool.close();
    long sum = 0;
    for (auto &worker : workers)
        worker.join();
    for (long part : sums)
        sum += part;
    std::printf("%ld\n", sum);
}
