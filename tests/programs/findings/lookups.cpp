// Nothing is wrong here: a table is built once and then only read by all threads.
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

using Table = std::unordered_map<std::string, long>;

static long look_up(const Table &table, int self, long times) {
    long sum = 0;
    unsigned key = static_cast<unsigned>(self);
    for (long k = 0; k < times; k++) {
        key = key * 1664525u + 1013904223u;
        auto found = table.find("key " + std::to_string(key >> 20));
        sum += found == table.end() ? 1 : found->second;
    }
    return sum;
}

int main(int argc, char **argv) {
    std::size_t threads = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 4;
    long times = argc > 2 ? std::atol(argv[2]) : 4000000;
    Table table;
    for (long k = 0; k < 3000; k++)
        table["key " + std::to_string(k)] = k;
    std::vector<long> sums(threads);
    std::vector<std::thread> readers;
    for (std::size_t k = 0; k < threads; k++)
        readers.emplace_back([&, k] { sums[k] = look_up(table, static_cast<int>(k), times); });
    for (auto &reader : readers)
        reader.join();
    std::printf("%ld\n", std::accumulate(sums.begin(), sums.end(), 0L));
}
