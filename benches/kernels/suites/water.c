// Splash water-nsquared: molecules of three atoms, each pair's forces computed once; a thread adds
// those on molecules of others to the shared forces under the molecule's lock. Usage: water THREADS
// SCALE
#include "team.h"

enum { MOLECULES = 512, ATOMS = 3, ORDERS = 6 };

typedef struct {
    double f[ORDERS + 1][ATOMS][3]; // positions, their derivatives, and last the forces
    double centre[3];
} Molecule;

static Molecule molecules[MOLECULES];
static pthread_mutex_t locks[MOLECULES], sum_lock = PTHREAD_MUTEX_INITIALIZER;
static double (*forces[MAX_THREADS])[ATOMS][3]; // of each thread
static double potential, kinetic;
static const double box = 24.8, cut = 9;

static double wrapped(double d) { return d > box / 2 ? d - box : d < -box / 2 ? d + box : d; }

static void predict(Molecule *m) {
    for (int a = 0; a < ATOMS; a++)
        for (int d = 0; d < 3; d++)
            for (int o = 0; o < ORDERS - 1; o++)
                for (int k = ORDERS - 1; k > o; k--) m->f[k - 1][a][d] += m->f[k][a][d];
    for (int d = 0; d < 3; d++) m->centre[d] = (m->f[0][0][d] + m->f[0][1][d] + m->f[0][2][d]) / 3;
}

// All nine pairs of atoms; the energy.
static double interact(int i, int j, double (*own)[ATOMS][3]) {
    Molecule *one = &molecules[i], *other = &molecules[j];
    double shift[3], squared = 0, energy = 0;
    for (int d = 0; d < 3; d++) {
        double plain = one->centre[d] - other->centre[d];
        shift[d] = wrapped(plain) - plain;
        squared += (plain + shift[d]) * (plain + shift[d]);
    }
    if (squared > cut * cut) return 0;
    for (int a = 0; a < ATOMS; a++)
        for (int b = 0; b < ATOMS; b++) {
            double way[3], r2 = 0.5, charge = a == 0 ? (b == 0 ? 0.7 : -0.35) : (b == 0 ? -0.35 : 0.17);
            for (int d = 0; d < 3; d++) {
                way[d] = one->f[0][a][d] - other->f[0][b][d] + shift[d];
                r2 += way[d] * way[d];
            }
            double r = sqrt(r2), push = charge / (r2 * r) + 0.4 * exp(-1.7 * r);
            energy += charge / r;
            for (int d = 0; d < 3; d++) {
                own[i][a][d] += push * way[d];
                own[j][b][d] -= push * way[d];
            }
        }
    return energy;
}

static void add_forces(double (*own)[ATOMS][3], int p) {
    int first = share(MOLECULES, p), reach = share(MOLECULES, p + 1) - first + MOLECULES / 2;
    for (int k = 0; k < reach && k < MOLECULES; k++) {
        int m = (first + k) % MOLECULES;
        pthread_mutex_lock(&locks[m]);
        for (int a = 0; a < ATOMS; a++)
            for (int d = 0; d < 3; d++) molecules[m].f[ORDERS][a][d] += own[m][a][d];
        pthread_mutex_unlock(&locks[m]);
    }
}

static double correct(Molecule *m) {
    double energy = 0;
    for (int a = 0; a < ATOMS; a++)
        for (int d = 0; d < 3; d++) {
            double wrong = 1e-6 * m->f[ORDERS][a][d] - m->f[2][a][d];
            m->f[2][a][d] += wrong;
            for (int o = 3; o < ORDERS; o++) m->f[o][a][d] = 0.1 * m->f[o][a][d] + 0.001 * wrong;
            energy += m->f[1][a][d] * m->f[1][a][d] * (a == 0 ? 16 : 1);
        }
    for (int d = 0; d < 3; d++) {
        double move = m->centre[d] > box ? -box : m->centre[d] < 0 ? box : 0;
        for (int a = 0; a < ATOMS && move != 0; a++) m->f[0][a][d] += move;
    }
    return energy;
}

static void *work(void *argument) {
    int p = (int)(intptr_t)argument, first = share(MOLECULES, p), last = share(MOLECULES, p + 1);
    double(*own)[ATOMS][3] = forces[p] = (double(*)[ATOMS][3])malloc(MOLECULES * sizeof *own);
    for (int step = 0; step < 200 * scale; step++) {
        for (int m = first; m < last; m++) {
            predict(&molecules[m]);
            memset(molecules[m].f[ORDERS], 0, sizeof molecules[m].f[ORDERS]);
        }
        meet();
        memset(own, 0, MOLECULES * sizeof *own);
        double energy = 0, moving = 0;
        for (int i = first; i < last; i++)
            for (int k = 1; k <= MOLECULES / 2; k++)
                if (k < MOLECULES / 2 || i < MOLECULES / 2) energy += interact(i, (i + k) % MOLECULES, own);
        add_forces(own, p);
        meet();
        for (int m = first; m < last; m++) moving += correct(&molecules[m]);
        pthread_mutex_lock(&sum_lock);
        potential += energy, kinetic += moving;
        pthread_mutex_unlock(&sum_lock);
        meet();
    }
    return NULL;
}

int main(int argc, char **argv) {
    read_arguments(argc, argv);
    uint64_t state = 20011;
    for (int m = 0; m < MOLECULES; m++) {
        pthread_mutex_init(&locks[m], NULL);
        for (int a = 0; a < ATOMS; a++)
            for (int d = 0; d < 3; d++) {
                int along = d == 0 ? m % 8 : d == 1 ? m / 8 % 8 : m / 64;
                molecules[m].f[0][a][d] = 3.1 * along + 1 + (a == d) * 0.8;
                molecules[m].f[1][a][d] = 1e-3 * (next_unit(&state) - 0.5);
            }
    }
    run_team(work);
    printf("%.4f %.4e\n", potential, kinetic);
    return 0;
}
