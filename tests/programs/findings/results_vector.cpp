// Numerical integration of any function: each thread adds to its element of a vector of results.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

using Function = std::function<double(double)>;

static void integrate(const Function &f, std::vector<double> &results, std::size_t self, std::size_t threads,
                      long steps) {
    const double width = 1.0 / static_cast<double>(steps);
#ifdef FIXED
    double sum = 0;
#else
    double &sum = results[self];
#endif
    for (long k = static_cast<long>(self); k < steps; k += static_cast<long>(threads))
        sum += f((static_cast<double>(k) + 0.5) * width) * width; // @add
#ifdef FIXED
    results[self] = sum;
#endif
}

int main(int argc, char **argv) {
    std::size_t threads = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 4;
    long steps = argc > 2 ? std::atol(argv[2]) : 60000000;
    std::vector<double> results(threads); // @alloc
    std::vector<std::thread> workers;
    Function f = [](double x) { return 4.0 / (1.0 + x * x); };
    for (std::size_t k = 0; k < threads; k++)
        workers.emplace_back([&, k] { integrate(f, results, k, threads, steps); });
    double sum = 0;
    for (std::size_t k = 0; k < threads; k++) {
        workers[k].join();
        sum += results[k];
    }
    std::printf("%.6f\n", sum);
}
