// A product of matrices in vectors: the initial thread fills them, each thread computes some rows.
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

using Matrix = std::vector<double>;

static Matrix make(int n, double value) {
    Matrix matrix(static_cast<size_t>(n) * n);
    for (size_t i = 0; i < matrix.size(); i++)
        matrix[i] = value + i % 5;
    return matrix;
}

static void rows(const Matrix &a, const Matrix &b, Matrix &c, int n, int first, int end) {
    for (int i = first; i < end; i++)
        for (int k = 0; k < n; k++)
            for (int j = 0; j < n; j++)
                c[i * n + j] += a[i * n + k] * b[k * n + j];
}

int main(int count, char **arguments) {
    const int n = count > 1 ? atoi(arguments[1]) : 160, threads = 4;
    Matrix a = make(n, 1), b = make(n, 2), c = make(n, 0);
    std::vector<std::thread> team;
    for (int t = 1; t < threads; t++)
        team.emplace_back(rows, std::cref(a), std::cref(b), std::ref(c), n, n / threads * t,
                          n / threads * (t + 1));
    rows(a, b, c, n, 0, n / threads);
    for (auto &thread : team)
        thread.join();
    double sum = 0;
    for (double value : c)
        sum += value;
    std::printf("sum %.0f\n", sum);
}
