// As data.c, for what C++ adds: namespaces, classes, inheritance, templates, atomics.
#include <array>
#include <atomic>

namespace pool {

struct Base {
    long generation;
};

template <typename T> struct Queue : Base {
    std::atomic<T> head;
    std::array<T, 4> items;
    static Queue instance;
};

template <typename T> alignas(64) Queue<T> Queue<T>::instance;
alignas(64) std::atomic<long> total{0};

__attribute__((noinline)) void run(int times) {
    for (int i = 0; i < times; i++) {
        total.fetch_add(Queue<long>::instance.items[i & 3]);
        Queue<long>::instance.head++;
    }
}

}

int main(int argc, char **) {
    pool::run(argc);
    return 0;
}
