// Statistics of a pipeline: each stage has a thread of its own and counts in its own counter, but
// the counters are neighbours.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>

#ifdef FIXED
#define APART alignas(64)
#else
#define APART
#endif

struct Statistics {
    APART std::atomic<std::uint64_t> parsed{0};
    APART std::atomic<std::uint64_t> routed{0};
    APART std::atomic<std::uint64_t> sent{0};
};

static Statistics statistics;

static std::uint64_t mix(std::uint64_t x) {
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdULL;
    return x ^ (x >> 29);
}

static void parse(long packets) {
    std::uint64_t state = 1;
    for (long k = 0; k < packets; k++) {
        state = mix(state + 1);
        statistics.parsed.fetch_add(state & 1, std::memory_order_relaxed); // @parse
    }
}

static void route(long packets) {
    std::uint64_t state = 2;
    for (long k = 0; k < packets; k++) {
        state = mix(state + 1);
        statistics.routed.fetch_add(state & 3, std::memory_order_relaxed); // @route
    }
}

static void send(long packets) {
    std::uint64_t state = 3;
    for (long k = 0; k < packets; k++) {
        state = mix(state + 1);
        statistics.sent.fetch_add(state & 7, std::memory_order_relaxed); // @send
    }
}

int main(int argc, char **argv) {
    long packets = argc > 2 ? std::atol(argv[2]) : 20000000;
    std::thread one(parse, packets), two(route, packets), three(send, packets);
    one.join();
    two.join();
    three.join();
    std::printf("%lu %lu %lu\n", (unsigned long)statistics.parsed, (unsigned long)statistics.routed,
                (unsigned long)statistics.sent);
}
