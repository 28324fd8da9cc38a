// Two threads update counters in one line of a vector, which a constructor has allocated.
//
//   heap MILLISECONDS
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

struct Counter {
    std::atomic<long> hits{0};
};

struct Table {
    std::vector<Counter> counters;
    explicit Table(int n) : counters(n) {}
};

static std::unique_ptr<Table> build(int n) { return std::make_unique<Table>(n); }

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    auto table = build(4);
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(atol(argv[1]));
    std::vector<std::thread> threads;
    for (int k = 0; k < 2; k++)
        threads.emplace_back([&table, until, k] {
            while (std::chrono::steady_clock::now() < until)
                for (int i = 0; i < 20000; i++)
                    table->counters[k].hits.fetch_add(1, std::memory_order_relaxed);
        });
    for (auto &thread : threads)
        thread.join();
    std::puts("done");
}
