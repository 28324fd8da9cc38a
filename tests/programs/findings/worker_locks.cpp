// Accounts of workers: each has a lock of its own, which only its worker takes while it works, but
// the locks of neighbours share lines.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#ifdef FIXED
#define APART alignas(64)
#else
#define APART
#endif

struct APART Account {
    std::mutex lock;
    std::uint64_t done = 0;

    void add(std::uint64_t amount) {
        // clang-format off
        { std::lock_guard<std::mutex> guard(lock); done += amount; } // @add
        // clang-format on
    }
};

static void work(Account &account, long items) {
    std::uint64_t state = 88172645463325252ULL;
    for (long k = 0; k < items; k++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        account.add(state & 7);
    }
}

int main(int argc, char **argv) {
    std::size_t threads = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 4;
    long items = argc > 2 ? std::atol(argv[2]) : 10000000;
    std::vector<Account> accounts(threads); // @alloc
    std::vector<std::thread> workers;
    for (std::size_t k = 0; k < threads; k++)
        workers.emplace_back([&, k] { work(accounts[k], items); });
    std::uint64_t done = 0;
    for (std::size_t k = 0; k < threads; k++) {
        workers[k].join();
        done += accounts[k].done;
    }
    std::printf("%lu\n", (unsigned long)done);
}
