// PARSEC swaptions: options on interest rates by simulation, each thread its own ones, in memory
// that it takes and gives back for each path. Usage: swaptions THREADS SCALE
#include "team.h"

enum { SWAPTIONS = 32, PATHS = 8000, YEARS = 11, FACTORS = 3 };

static double prices[SWAPTIONS];

static double **new_table(int rows, int columns) {
    double **table = (double **)malloc((size_t)rows * sizeof *table);
    table[0] = (double *)calloc((size_t)(rows * columns), sizeof **table);
    for (int r = 1; r < rows; r++) table[r] = table[0] + r * columns;
    return table;
}

static void free_table(double **table) {
    free(table[0]);
    free(table);
}

static double normal(uint64_t *state) {
    double u = next_unit(state) + 1e-12, v = next_unit(state);
    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

// Forward rates of all years along one path, by Heath, Jarrow and Morton with constant factors.
static double follow_path(double strike, uint64_t *state) {
    double **rates = new_table(YEARS, YEARS), **shocks = new_table(FACTORS, YEARS);
    for (int f = 0; f < FACTORS; f++)
        for (int y = 0; y < YEARS; y++) shocks[f][y] = normal(state);
    for (int y = 0; y < YEARS; y++) rates[0][y] = 0.04 + 0.001 * y;
    for (int now = 1; now < YEARS; now++)
        for (int y = 0; y < YEARS - now; y++) {
            double move = 0.0002;
            for (int f = 0; f < FACTORS; f++) move += 0.004 * exp(-0.1 * f * y) * shocks[f][now];
            rates[now][y] = rates[now - 1][y + 1] + move;
        }
    double discount = 1, value = 0, paid = 1;
    for (int now = 0; now < YEARS / 2; now++) discount *= exp(-rates[now][0]);
    for (int y = 0; y < YEARS / 2; y++) {
        paid *= exp(-rates[YEARS / 2][y]);
        value += paid * (rates[YEARS / 2][y] - strike);
    }
    free_table(shocks);
    free_table(rates);
    return value > 0 ? discount * value : 0;
}

static void *work(void *argument) {
    int p = (int)(intptr_t)argument;
    for (int n = share(SWAPTIONS, p); n < share(SWAPTIONS, p + 1); n++) {
        uint64_t state = 1234567 + 1000003 * (uint64_t)n;
        double sum = 0;
        for (int path = 0; path < PATHS * scale; path++) sum += follow_path(0.03 + 0.001 * n, &state);
        prices[n] = sum / (PATHS * scale);
    }
    return NULL;
}

int main(int argc, char **argv) {
    read_arguments(argc, argv);
    run_team(work);
    double sum = 0;
    for (int n = 0; n < SWAPTIONS; n++) sum += prices[n];
    printf("%.8f\n", sum);
    return 0;
}
