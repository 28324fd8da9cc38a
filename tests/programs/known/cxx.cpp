// The patterns of patterns.h on C++ threads. Each half of a round hands its result over as an
// exception thrown through several frames, so that unwinding through recorded code is exercised
// where it matters: on every thread at once. Participants are threads 1 to N.
#include "patterns.h"

#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

class Barrier {
  public:
    explicit Barrier(int members) : members_(members) {}

    void wait() {
        std::unique_lock<std::mutex> hold(lock_);
        const int mine = generation_;
        if (++here_ == members_) {
            here_ = 0;
            ++generation_;
            all_here_.notify_all();
            return;
        }
        all_here_.wait(hold, [&] { return mine != generation_; });
    }

  private:
    std::mutex lock_;
    std::condition_variable all_here_;
    int members_, here_ = 0, generation_ = 0;
};

struct Result : std::runtime_error {
    explicit Result(uint64_t sum) : std::runtime_error("result"), sum(sum) {}
    uint64_t sum;
};

// Counts its own destructions, which unwinding must run.
struct Guard {
    explicit Guard(int &unwound) : unwound(unwound) {}
    ~Guard() { ++unwound; }
    int &unwound;
};

[[gnu::noinline]] void throw_deep(int depth, uint64_t sum, int &unwound) {
    Guard guard(unwound);
    if (depth == 0) throw Result(sum);
    throw_deep(depth - 1, sum, unwound);
}

uint64_t through_exception(uint64_t sum, int &unwound) {
    try {
        throw_deep(3, sum, unwound);
    } catch (const Result &result) {
        return result.sum;
    }
    return 0;
}

void participant(const Setup &setup, uint64_t *regions, Barrier &barrier, int p, uint64_t &out,
                 int &unwound_out) {
    uint64_t sum = 0;
    int unwound = 0;
    barrier.wait();
    for (int round = 0; round < setup.rounds; round++) {
        sum += through_exception(write_half(&setup, regions, p, round), unwound);
        barrier.wait();
        sum += through_exception(read_half(&setup, regions, p), unwound);
        barrier.wait();
    }
    out = sum;
    unwound_out = unwound;
}

} // namespace

int main(int argc, char **argv) {
    const Setup setup = read_setup(argc, argv, 1);
    uint64_t *regions = map_regions(&setup);
    std::vector<uint64_t> sums(setup.participants);
    std::vector<int> unwound(setup.participants);
    Barrier barrier(setup.participants);
    std::vector<std::thread> threads;
    for (int p = 0; p < setup.participants; p++)
        threads.emplace_back(participant, std::cref(setup), regions, std::ref(barrier), p,
                             std::ref(sums[p]), std::ref(unwound[p]));
    for (auto &thread : threads) thread.join();
    for (int p = 0; p < setup.participants; p++)
        std::printf("checksum %d %llu unwound %d\n", p, (unsigned long long)sums[p], unwound[p]);
    print_expected(&setup);
    return 0;
}
