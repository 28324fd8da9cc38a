// Splash barnes: bodies in an octree that all threads build at once, a lock at each cell that
// changes; then masses from the leaves up, forces by walks from the root, and moves. Usage: barnes
// THREADS SCALE
#include "team.h"

enum { BODIES = 8192, MAX_CELLS = 4 * BODIES, LOCKS = 2048, DEEPEST = 40 };

typedef struct Node {
    int is_cell;
    double mass, place[3];
} Node;

typedef struct {
    Node node;
    double speed[3], pull[3];
} Body;

typedef struct {
    Node node;
    Node *child[8];
    double size;
} Cell;

static Body bodies[BODIES];
static Cell *cells[MAX_THREADS], *root;
static int used[MAX_THREADS];
static pthread_mutex_t locks[LOCKS];

static pthread_mutex_t *lock_of(const Cell *cell) { return &locks[(uintptr_t)cell / sizeof *cell % LOCKS]; }

static Cell *new_cell(int p, const double *middle, double size) {
    if (used[p] == MAX_CELLS) abort();
    Cell *cell = &cells[p][used[p]++];
    memset(cell, 0, sizeof *cell);
    cell->node.is_cell = 1;
    cell->size = size;
    memcpy(cell->node.place, middle, sizeof cell->node.place); // its middle, until masses are known
    return cell;
}

static int octant(const Cell *cell, const double *place, double *middle) {
    int which = 0;
    for (int d = 0; d < 3; d++) {
        int upper = place[d] >= cell->node.place[d];
        which |= upper << d;
        middle[d] = cell->node.place[d] + (upper ? 0.25 : -0.25) * cell->size;
    }
    return which;
}

static void insert(int p, Body *body) {
    Cell *cell = root;
    for (int depth = 0; depth < DEEPEST;) {
        double middle[3];
        int which = octant(cell, body->node.place, middle);
        Node *child = __atomic_load_n(&cell->child[which], __ATOMIC_ACQUIRE);
        if (child && child->is_cell) {
            cell = (Cell *)child, depth++;
            continue;
        }
        pthread_mutex_lock(lock_of(cell));
        child = cell->child[which];
        int is_free = !child;
        if (is_free) {
            cell->child[which] = &body->node;
        } else if (!child->is_cell) { // a body: both go into a new cell
            Cell *inner = new_cell(p, middle, cell->size / 2);
            double unused[3];
            inner->child[octant(inner, child->place, unused)] = child;
            __atomic_store_n(&cell->child[which], &inner->node, __ATOMIC_RELEASE);
        }
        pthread_mutex_unlock(lock_of(cell));
        if (is_free) return;
    }
    abort();
}

static void weigh(Cell *cell) {
    double mass = 0, sum[3] = {0};
    for (int k = 0; k < 8; k++) {
        Node *child = cell->child[k];
        if (!child) continue;
        if (child->is_cell) weigh((Cell *)child);
        mass += child->mass;
        for (int d = 0; d < 3; d++) sum[d] += child->mass * child->place[d];
    }
    cell->node.mass = mass;
    for (int d = 0; d < 3; d++) cell->node.place[d] = sum[d] / mass;
}

static void walk(const Node *node, Body *body) {
    if (node == &body->node) return;
    double way[3], r2 = 1e-4;
    for (int d = 0; d < 3; d++) way[d] = node->place[d] - body->node.place[d], r2 += way[d] * way[d];
    if (node->is_cell) {
        const Cell *cell = (const Cell *)node;
        if (cell->size * cell->size > 0.8 * r2) {
            for (int k = 0; k < 8; k++)
                if (cell->child[k]) walk(cell->child[k], body);
            return;
        }
    }
    double pull = node->mass / (r2 * sqrt(r2));
    for (int d = 0; d < 3; d++) body->pull[d] += pull * way[d];
}

static void *work(void *argument) {
    int p = (int)(intptr_t)argument, first = share(BODIES, p), last = share(BODIES, p + 1);
    cells[p] = (Cell *)malloc(MAX_CELLS * sizeof *cells[p]);
    for (int step = 0; step < 40 * scale; step++) {
        const double middle[3] = {0};
        used[p] = 0;
        if (p == 0) root = new_cell(0, middle, 64);
        meet();
        for (int b = first; b < last; b++) insert(p, &bodies[b]);
        meet();
        for (int k = p; k < 8; k += threads) // the root's children, and then itself
            if (root->child[k] && root->child[k]->is_cell) weigh((Cell *)root->child[k]);
        meet();
        if (p == 0) weigh(root);
        meet();
        for (int b = first; b < last; b++) {
            memset(bodies[b].pull, 0, sizeof bodies[b].pull);
            walk(&root->node, &bodies[b]);
        }
        meet();
        for (int b = first; b < last; b++)
            for (int d = 0; d < 3; d++) {
                bodies[b].speed[d] += 1e-4 * bodies[b].pull[d];
                bodies[b].node.place[d] += 1e-3 * bodies[b].speed[d];
            }
        meet();
    }
    return NULL;
}

int main(int argc, char **argv) {
    read_arguments(argc, argv);
    for (int k = 0; k < LOCKS; k++) pthread_mutex_init(&locks[k], NULL);
    uint64_t state = 4711;
    for (int b = 0; b < BODIES; b++) {
        bodies[b].node.mass = 1.0 / BODIES;
        for (int d = 0; d < 3; d++) { // denser in the middle
            double u = 2 * next_unit(&state) - 1;
            bodies[b].node.place[d] = 8 * u * fabs(u);
        }
    }
    run_team(work);
    double sum = 0;
    for (int b = 0; b < BODIES; b++) sum += bodies[b].pull[0] * bodies[b].node.place[1];
    printf("%.6e\n", sum);
    return 0;
}
