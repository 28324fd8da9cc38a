// Exceptions with known truth: thread 1 writes each block of a region in a handler, a destructor or
// after a rethrow, for an exception that comes out of a library, through frames of both; then
// thread 2 reads every block.
#include "../stress/thrower.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <thread>

namespace {

constexpr int BLOCKS = 120;

struct alignas(64) Block {
    volatile std::uint64_t word[8];
};
alignas(4096) Block region[BLOCKS];

struct Writes {
    Block *block;
    ~Writes() { block->word[1] = 7; }
};

[[gnu::noinline]] void through_frames(int depth, int k) {
    Writes unwound{&region[k]};
    if (depth == 0) throw std::runtime_error("here");
    through_frames(depth - 1, k);
}

void write_one(int k) {
    switch (k % 3) {
    case 0:
        try {
            through_frames(5, k);
        } catch (const std::exception &) {
        }
        break;
    case 1:
        try {
            try {
                throw k;
            } catch (const Thrown &) {
                throw;
            }
        } catch (int caught) {
            region[caught].word[2] = 8;
        }
        break;
    default:
        try {
            thrower(k % 5);
        } catch (const Thrown &) {
            region[k].word[3] = 9;
        }
    }
}

} // namespace

int main() {
    std::thread writer([] {
        for (int k = 0; k < BLOCKS; k++) write_one(k);
    });
    writer.join();
    std::uint64_t sum = 0;
    std::thread reader([&] {
        for (const Block &block : region) sum += block.word[0];
    });
    reader.join();
    std::printf("region region %p %zu\nexpect raw 1 2 %d\n", static_cast<void *>(region), sizeof region, BLOCKS);
    return sum == 1;
}
