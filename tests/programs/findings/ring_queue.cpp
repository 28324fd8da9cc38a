// A queue between one producer and one consumer: head and tail lie on one line.
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

class Ring {
  public:
    explicit Ring(std::size_t size) : items(size), mask(size - 1) {}

    bool push(long item) {
        std::size_t at = tail.load(std::memory_order_relaxed);
#ifdef FIXED
        if (at - seen_head > mask) {
            seen_head = head.load(std::memory_order_acquire);
            if (at - seen_head > mask)
                return false;
        }
#else
        if (at - head.load(std::memory_order_acquire) > mask) // @push
            return false;
#endif
        items[at & mask] = item; // @push
        tail.store(at + 1, std::memory_order_release); // @push
        return true;
    }

    bool pop(long &item) {
        std::size_t at = head.load(std::memory_order_relaxed);
#ifdef FIXED
        if (at == seen_tail) {
            seen_tail = tail.load(std::memory_order_acquire);
            if (at == seen_tail)
                return false;
        }
#else
        if (at == tail.load(std::memory_order_acquire)) // @pop
            return false;
#endif
        item = items[at & mask]; // @pop
        head.store(at + 1, std::memory_order_release); // @pop
        return true;
    }

  private:
    std::vector<long> items;
    std::size_t mask;
#ifdef FIXED
    alignas(64) std::atomic<std::size_t> head{0};
    std::size_t seen_tail = 0;
    alignas(64) std::atomic<std::size_t> tail{0};
    std::size_t seen_head = 0;
#else
    std::atomic<std::size_t> head{0};
    std::atomic<std::size_t> tail{0};
#endif
};

static Ring ring(256);

static void produce(long items) {
    for (long k = 0; k < items; k++)
        while (!ring.push(k))
            std::this_thread::yield();
}

static long consume(long items) {
    long sum = 0, item = 0;
    for (long k = 0; k < items; k++) {
        while (!ring.pop(item))
            std::this_thread::yield();
        sum += item;
    }
    return sum;
}

int main(int argc, char **argv) {
    long items = argc > 2 ? std::atol(argv[2]) : 20000000;
    std::thread producer(produce, items);
    long sum = consume(items);
    producer.join();
    std::printf("%ld\n", sum);
}
