// Each request takes a reference to the settings, as a server does that may reload them: all
// threads count up and down in the same control block.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

struct Settings {
    int most_bytes = 1500;
    int least_bytes = 64;
};

static std::shared_ptr<const Settings> settings;

static long answer(long request, const Settings &in_force) {
    long bytes = request * 37 % 2000;
    return bytes > in_force.most_bytes ? in_force.most_bytes : bytes + in_force.least_bytes;
}

static void serve(long requests, long *bytes) {
    long sum = 0;
#ifdef FIXED
    std::shared_ptr<const Settings> mine = settings;
#endif
    for (long k = 0; k < requests; k++) {
#ifndef FIXED
        std::shared_ptr<const Settings> mine = settings; // @serve
#endif
        sum += answer(k, *mine); // @serve
    } // @serve
    *bytes = sum;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? std::atoi(argv[1]) : 4;
    long requests = argc > 2 ? std::atol(argv[2]) : 6000000;
    settings = std::make_shared<const Settings>(); // @alloc
    std::vector<long> bytes(threads);
    std::vector<std::thread> servers;
    for (int k = 0; k < threads; k++)
        servers.emplace_back(serve, requests, &bytes[k]);
    long sum = 0;
    for (int k = 0; k < threads; k++) {
        servers[k].join();
        sum += bytes[k];
    }
    std::printf("%ld\n", sum);
}
