// PARSEC fluidanimate: particles in a grid of cells; densities and forces of each pair of
// neighbours are added to both, under the cell's lock where two threads' shares meet. Usage:
// fluidanimate THREADS SCALE
#include "team.h"

enum { SIDE = 16, CELLS = SIDE * SIDE * SIDE, MAX_HERE = 16, PARTICLES = 5 * CELLS };

typedef struct {
    float place[MAX_HERE][3], speed[MAX_HERE][3], push[MAX_HERE][3], density[MAX_HERE];
} Cell;

static Cell *cells, *before;
static int counts[CELLS], counts_before[CELLS];
static pthread_mutex_t locks[CELLS];

static int first_layer(int p) { return share(SIDE, p); }
static int cell_of(int x, int y, int z) { return (z * SIDE + y) * SIDE + x; }

// Whether another thread may change the cell, too: layers are shared out.
static int is_border(int cell, int p) {
    int z = cell / SIDE / SIDE;
    return z <= first_layer(p) || z >= first_layer(p + 1) - 1;
}

static void sort_particles(int p) {
    for (int c = cell_of(0, 0, first_layer(p)); c < cell_of(0, 0, first_layer(p + 1)); c++) {
        before[c] = cells[c];
        counts_before[c] = counts[c], counts[c] = 0;
    }
    meet();
    for (int c = cell_of(0, 0, first_layer(p)); c < cell_of(0, 0, first_layer(p + 1)); c++)
        for (int k = 0; k < counts_before[c]; k++) {
            int at[3];
            for (int d = 0; d < 3; d++) at[d] = (int)fminf(SIDE - 1, fmaxf(0, before[c].place[k][d]));
            int to = cell_of(at[0], at[1], at[2]);
            pthread_mutex_lock(&locks[to]);
            int n = counts[to] < MAX_HERE ? counts[to]++ : -1;
            pthread_mutex_unlock(&locks[to]);
            if (n < 0) continue; // too dense: it is lost
            memcpy(cells[to].place[n], before[c].place[k], sizeof before[c].place[k]);
            memcpy(cells[to].speed[n], before[c].speed[k], sizeof before[c].speed[k]);
            memset(cells[to].push[n], 0, sizeof cells[to].push[n]);
            cells[to].density[n] = 0;
        }
    meet();
}

static void change(int cell, int p, float *what, float by) {
    if (is_border(cell, p)) {
        pthread_mutex_lock(&locks[cell]);
        *what += by;
        pthread_mutex_unlock(&locks[cell]);
    } else {
        *what += by;
    }
}

static void meet_particles(int p, int a, int i, int b, int j, int forces) {
    float way[3], r2 = 0;
    for (int d = 0; d < 3; d++) way[d] = cells[a].place[i][d] - cells[b].place[j][d], r2 += way[d] * way[d];
    if (r2 >= 1 || r2 == 0) return;
    float near = 1 - r2;
    if (!forces) {
        change(a, p, &cells[a].density[i], near * near * near);
        change(b, p, &cells[b].density[j], near * near * near);
        return;
    }
    float push = 0.002f * near * near * (cells[a].density[i] + cells[b].density[j]);
    for (int d = 0; d < 3; d++) {
        change(a, p, &cells[a].push[i][d], push * way[d]);
        change(b, p, &cells[b].push[j][d], -push * way[d]);
    }
}

// All pairs with the cells that come later in the order, and within the cell.
static void visit(int p, int forces) {
    for (int z = first_layer(p); z < first_layer(p + 1); z++)
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++)
                for (int n = 13; n < 27; n++) {
                    int i = x + n % 3 - 1, j = y + n / 3 % 3 - 1, k = z + n / 9 - 1;
                    if ((unsigned)i >= SIDE || (unsigned)j >= SIDE || (unsigned)k >= SIDE) continue;
                    int a = cell_of(x, y, z), b = cell_of(i, j, k);
                    for (int one = 0; one < counts[a]; one++)
                        for (int other = a == b ? one + 1 : 0; other < counts[b]; other++)
                            meet_particles(p, a, one, b, other, forces);
                }
    meet();
}

static void *work(void *argument) {
    int p = (int)(intptr_t)argument;
    for (int step = 0; step < 24 * scale; step++) {
        sort_particles(p);
        visit(p, 0);
        visit(p, 1);
        for (int c = cell_of(0, 0, first_layer(p)); c < cell_of(0, 0, first_layer(p + 1)); c++)
            for (int k = 0; k < counts[c]; k++)
                for (int d = 0; d < 3; d++) {
                    float at = cells[c].place[k][d], out = at < 0 ? -at : at > SIDE ? SIDE - at : 0;
                    cells[c].speed[k][d] += cells[c].push[k][d] + 0.1f * out - (d == 1 ? 0.001f : 0);
                    cells[c].place[k][d] += cells[c].speed[k][d];
                }
        meet();
    }
    return NULL;
}

int main(int argc, char **argv) {
    read_arguments(argc, argv);
    uint64_t state = 5;
    cells = (Cell *)calloc(CELLS, sizeof *cells), before = (Cell *)calloc(CELLS, sizeof *before);
    for (int c = 0; c < CELLS; c++) pthread_mutex_init(&locks[c], NULL);
    for (int n = 0; n < PARTICLES; n++) {
        float at[3];
        for (int d = 0; d < 3; d++) at[d] = (float)(SIDE * next_unit(&state));
        int c = cell_of((int)at[0], (int)at[1], (int)at[2]);
        if (counts[c] < MAX_HERE) memcpy(cells[c].place[counts[c]++], at, sizeof at);
    }
    run_team(work);
    double height = 0, all = 0;
    for (int c = 0; c < CELLS; c++)
        for (int k = 0; k < counts[c]; k++) height += cells[c].place[k][1], all++;
    printf("%.0f %.2f\n", all, height / all);
    return 0;
}
