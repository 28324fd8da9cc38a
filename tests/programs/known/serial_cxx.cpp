// As serial.c, with what C++ compilers make: objects with virtual functions, atomics, containers in
// memory of their own, exceptions through frames that hold objects.
//
// Usage: serial_cxx THREADS STEPS SEED
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string_view>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

struct Shape {
    virtual ~Shape() = default;
    virtual double grow(double by) = 0;
    int id = 0;
};

struct Circle final : Shape {
    double radius = 1;
    double grow(double by) override { return radius += by; }
};

struct Box final : Shape {
    float width = 1, height = 2;
    double grow(double by) override {
        height = static_cast<float>(height * 0.5 + by);
        return width + height;
    }
};

struct alignas(4096) World {
    std::array<Circle, 40> circles;
    std::array<Box, 40> boxes;
    std::array<std::atomic<std::uint32_t>, 64> counters{};
    std::array<std::int16_t, 500> numbers{};
    std::array<char, 600> text{};
};

World world;
int done;

std::uint64_t draw(std::uint64_t &state, std::uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}

struct Thrown {
    std::int16_t *where;
};

[[gnu::noinline]] void change(std::int16_t *where, bool fails) {
    ++*where;
    if (fails) throw Thrown{where + 3};
}

std::uint64_t step(std::uint64_t &state) {
    std::size_t at = draw(state, 40);
    Shape &shape = draw(state, 2) ? static_cast<Shape &>(world.circles[at]) : world.boxes[at];
    switch (draw(state, 9)) {
    case 0: return static_cast<std::uint64_t>(shape.grow(0.25));
    case 1: return static_cast<std::uint64_t>(shape.id++);
    case 2: return world.counters[at].fetch_add(2, std::memory_order_relaxed);
    case 3: {
        std::uint32_t expected = 4;
        return world.counters[at].compare_exchange_strong(expected, 9);
    }
    case 4: std::fill_n(world.numbers.begin() + static_cast<long>(at), 60, std::int16_t(at)); return 1;
    case 5: return std::accumulate(world.numbers.begin() + static_cast<long>(at), world.numbers.end(), 0u);
    case 6: std::copy_n(world.text.begin() + static_cast<long>(at), 200, world.text.begin() + 300); return 2;
    case 7: world.text[at * 7] = static_cast<char>(at); return 3;
    default:
        try {
            change(&world.numbers[at * 4], at % 2);
        } catch (const Thrown &thrown) {
            *thrown.where = 5;
        }
        return 4;
    }
}

void wait_for(int fd) {
    std::uint64_t value;
    if (read(fd, &value, 8) != 8) _exit(3);
}

void post(int fd) {
    std::uint64_t one = 1;
    if (write(fd, &one, 8) != 8) _exit(3);
}

struct alignas(4096) Worker {
    std::uint64_t state = 0, sum = 0;
    int go = 0;
    bool last = false;

    void run() {
        for (;;) {
            wait_for(go);
            if (last) return;
            for (int k = 0; k < 6; k++) sum += step(state);
            post(done);
        }
    }
};

} // namespace

int main(int argc, char **argv) {
    auto number = [&](int k, int otherwise) { return argc > k ? std::atoi(argv[k]) : otherwise; };
    auto threads = static_cast<std::size_t>(number(1, 4));
    int steps = number(2, 100);
    auto order = static_cast<std::uint64_t>(number(3, 1));
    done = eventfd(0, EFD_SEMAPHORE);
    std::vector<Worker> workers(threads);
    std::vector<std::thread> running;
    for (std::size_t t = 0; t < threads; t++) {
        workers[t].go = eventfd(0, EFD_SEMAPHORE);
        workers[t].state = order * 1000 + t;
    }
    for (Worker &worker : workers) running.emplace_back(&Worker::run, &worker);
    for (int k = 0; k < steps; k++) {
        post(workers[draw(order, threads)].go);
        wait_for(done);
    }
    std::uint64_t sum = 0;
    for (std::size_t t = 0; t < threads; t++) {
        workers[t].last = true;
        post(workers[t].go);
        running[t].join();
        sum += workers[t].sum;
    }
    std::printf("region world %p %zu\n", static_cast<void *>(&world), sizeof world);
    std::printf("checksum %llu\n", static_cast<unsigned long long>(sum));
}
