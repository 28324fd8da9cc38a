// PARSEC streamcluster: points grouped around medians. For each candidate all threads compute what
// it would gain, with barriers between the steps, and one of them decides. Usage: streamcluster
// THREADS SCALE
#include "team.h"
#include <vector>

enum { POINTS = 4096, DIMENSIONS = 32 };

struct Point {
    float *at;
    float cost;
    int median;
};

static std::vector<Point> points;
static std::vector<char> is_median, moves;
static std::vector<int> number;       // of each median among the medians
static std::vector<double> lower[MAX_THREADS]; // by median: what its points gain by moving
static double gains[MAX_THREADS], total_gain;
static std::vector<double> total_lower;
static int medians;

static float distance(const Point &a, const Point &b) {
    float sum = 0;
    for (int d = 0; d < DIMENSIONS; d++) sum += (a.at[d] - b.at[d]) * (a.at[d] - b.at[d]);
    return sum;
}

// Makes point x a median if that costs less than it saves; medians whose points would all leave are
// closed.
static void try_median(int x, int p, double price) {
    int first = share(POINTS, p), last = share(POINTS, p + 1);
    if (p == 0) {
        medians = 0;
        for (int i = 0; i < POINTS; i++)
            if (is_median[i]) number[i] = medians++;
        total_lower.assign((size_t)medians, 0);
    }
    meet();
    lower[p].assign((size_t)medians, 0);
    double gain = 0;
    for (int i = first; i < last; i++) {
        float there = distance(points[i], points[x]), less = points[i].cost - there;
        moves[i] = less > 0;
        if (less > 0) gain += less;
        else lower[p][number[points[i].median]] += less;
    }
    gains[p] = gain;
    meet();
    if (p == 0) {
        total_gain = -price;
        for (int t = 0; t < threads; t++) total_gain += gains[t];
        for (int m = 0; m < medians; m++) {
            for (int t = 0; t < threads; t++) total_lower[m] += lower[t][m];
            if (total_lower[m] + price > 0) total_gain += total_lower[m] + price;
        }
    }
    meet();
    if (total_gain > 0) {
        for (int i = first; i < last; i++) {
            int closes = total_lower[number[points[i].median]] + price > 0;
            if (moves[i] || closes) points[i].cost = distance(points[i], points[x]), points[i].median = x;
        }
        meet();
        if (p == 0) {
            for (int i = 0; i < POINTS; i++)
                if (is_median[i] && total_lower[number[i]] + price > 0) is_median[i] = 0;
            is_median[x] = 1;
        }
    }
    meet();
}

static void *work(void *argument) {
    int p = (int)(intptr_t)argument;
    for (int i = share(POINTS, p); i < share(POINTS, p + 1); i++)
        points[i].cost = distance(points[i], points[0]), points[i].median = 0;
    uint64_t state = 31337;
    for (int round = 0; round < 10000 * scale; round++)
        try_median((int)(next_random(&state) % POINTS), p, 40 + round % 7);
    return nullptr;
}

int main(int argc, char **argv) {
    read_arguments(argc, argv);
    points.resize(POINTS), is_median.resize(POINTS), moves.resize(POINTS), number.resize(POINTS);
    std::vector<float> numbers(POINTS * DIMENSIONS);
    uint64_t state = 2718;
    for (int i = 0; i < POINTS; i++) {
        points[i].at = &numbers[(size_t)i * DIMENSIONS];
        for (int d = 0; d < DIMENSIONS; d++)
            points[i].at[d] = (float)((i % 17 * (d + 3) % 11) / 11.0 + 0.3 * next_unit(&state));
    }
    is_median[0] = 1;
    run_team(work);
    double cost = 0;
    int all = 0;
    for (int i = 0; i < POINTS; i++) cost += points[i].cost, all += is_median[i];
    printf("%d %.3f\n", all, cost);
    return 0;
}
