// Nothing is wrong here: each thread builds and searches a tree of its own, with many small blocks.
#include <cstdio>
#include <cstdlib>
#include <future>
#include <map>
#include <string>
#include <vector>

static long build(unsigned seed, long words) {
    std::map<std::string, int> tree;
    long most = 0;
    for (long k = 0; k < words; k++) {
        seed = seed * 1664525u + 1013904223u;
        int &count = tree["a word of some length " + std::to_string(seed >> 20)];
        most = std::max<long>(most, ++count);
        if (tree.size() > 2000)
            tree.erase(tree.begin());
    }
    return most + static_cast<long>(tree.size());
}

int main(int argc, char **argv) {
    unsigned threads = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 4;
    long words = argc > 2 ? std::atol(argv[2]) : 700000;
    std::vector<std::future<long>> parts;
    for (unsigned k = 0; k < threads; k++)
        parts.push_back(std::async(std::launch::async, build, k + 1, words));
    long sum = 0;
    for (auto &part : parts)
        sum += part.get();
    std::printf("%ld\n", sum);
}
