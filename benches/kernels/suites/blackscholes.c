// PARSEC blackscholes: prices of options by a closed formula, a slice of the options for each
// thread, again and again with a barrier. Usage: blackscholes THREADS SCALE
#include "team.h"

enum { OPTIONS = 16384, ROUNDS = 900 };

typedef struct {
    float spot, strike, rate, volatility, time;
    int is_put;
} Option;

static Option *options;
static float *prices;

static float normal(float x) {
    float positive = fabsf(x), k = 1 / (1 + 0.2316419f * positive);
    float upper = 1.781477937f + k * (-1.821255978f + k * 1.330274429f);
    float sum = k * (0.319381530f + k * (-0.356563782f + k * upper));
    float tail = 0.39894228f * expf(-0.5f * positive * positive) * sum;
    return x < 0 ? tail : 1 - tail;
}

static float price(const Option *o) {
    float root = o->volatility * sqrtf(o->time);
    float d1 = (logf(o->spot / o->strike) + (o->rate + o->volatility * o->volatility / 2) * o->time) / root;
    float d2 = d1 - root, later = o->strike * expf(-o->rate * o->time);
    if (o->is_put) return later * (1 - normal(d2)) - o->spot * (1 - normal(d1));
    return o->spot * normal(d1) - later * normal(d2);
}

static void *work(void *argument) {
    int p = (int)(intptr_t)argument;
    for (int round = 0; round < ROUNDS * scale; round++) {
        for (int i = share(OPTIONS, p); i < share(OPTIONS, p + 1); i++) prices[i] = price(&options[i]);
        meet();
    }
    return NULL;
}

int main(int argc, char **argv) {
    read_arguments(argc, argv);
    uint64_t state = 99;
    options = (Option *)malloc(OPTIONS * sizeof *options);
    prices = (float *)malloc(OPTIONS * sizeof *prices);
    for (int i = 0; i < OPTIONS; i++) {
        double spot = next_unit(&state), strike = next_unit(&state), volatility = next_unit(&state);
        options[i] = (Option){(float)(50 + 50 * spot), (float)(50 + 50 * strike), 0.05f,
                              (float)(0.1 + 0.5 * volatility), (float)(0.1 + next_unit(&state)), i % 2};
    }
    run_team(work);
    double sum = 0;
    for (int i = 0; i < OPTIONS; i++) sum += prices[i];
    printf("%.4f\n", sum);
    return 0;
}
