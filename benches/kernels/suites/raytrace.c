// Splash raytrace and volrend: rays through a scene of spheres in a grid of cells, which no thread
// changes; tiles of the picture come from queues with locks, and from other threads' when a
// thread's own is empty. Usage: raytrace THREADS SCALE
#include "team.h"

enum { SPHERES = 600, CELLS = 12, WIDTH = 320, HEIGHT = 240, TILE = 16, MAX_HERE = 64 };

typedef struct {
    double centre[3], radius, colour[3], mirror;
} Sphere;

typedef struct {
    int count, spheres[MAX_HERE];
} Cell;

typedef struct {
    pthread_mutex_t lock;
    int next, end;
    char pad[64];
} Queue;

static Sphere *spheres;
static Cell (*cells)[CELLS][CELLS];
static Queue queues[MAX_THREADS];
static uint32_t *picture;

static void make_scene(void) {
    uint64_t state = 777;
    spheres = (Sphere *)calloc(SPHERES, sizeof *spheres);
    cells = (Cell(*)[CELLS][CELLS])calloc(CELLS, sizeof *cells);
    for (int n = 0; n < SPHERES; n++) {
        Sphere *s = &spheres[n];
        int low[3], high[3];
        s->radius = 0.15 + 0.35 * next_unit(&state), s->mirror = n % 3 ? 0 : 0.5;
        for (int d = 0; d < 3; d++) {
            s->centre[d] = 0.5 + (CELLS - 1) * next_unit(&state), s->colour[d] = next_unit(&state);
            low[d] = (int)fmax(0, s->centre[d] - s->radius);
            high[d] = (int)fmin(CELLS - 1, s->centre[d] + s->radius);
        }
        for (int x = low[0]; x <= high[0]; x++)
            for (int y = low[1]; y <= high[1]; y++)
                for (int z = low[2]; z <= high[2]; z++) {
                    Cell *cell = &cells[x][y][z];
                    if (cell->count < MAX_HERE) cell->spheres[cell->count++] = n;
                }
    }
}

static double hit(const Sphere *s, const double *from, const double *way) {
    double b = 0, c = -s->radius * s->radius;
    for (int d = 0; d < 3; d++) {
        double away = from[d] - s->centre[d];
        b += away * way[d], c += away * away;
    }
    double inside = b * b - c;
    return inside < 0 || -b - sqrt(inside) < 1e-6 ? 1e30 : -b - sqrt(inside);
}

// The nearest sphere on the way from cell to cell, or NULL.
static const Sphere *nearest(const double *from, const double *way, double *far) {
    int at[3], step[3];
    double next[3], wide[3];
    for (int d = 0; d < 3; d++) {
        double speed = fabs(way[d]) < 1e-12 ? 1e-12 : way[d];
        at[d] = (int)from[d], step[d] = speed > 0 ? 1 : -1;
        wide[d] = fabs(1 / speed), next[d] = ((speed > 0 ? at[d] + 1 : at[d]) - from[d]) / speed;
    }
    while ((unsigned)at[0] < CELLS && (unsigned)at[1] < CELLS && (unsigned)at[2] < CELLS) {
        const Cell *cell = &cells[at[0]][at[1]][at[2]];
        const Sphere *found = NULL;
        int d = next[0] < next[1] ? (next[0] < next[2] ? 0 : 2) : (next[1] < next[2] ? 1 : 2);
        *far = 1e30;
        for (int k = 0; k < cell->count; k++) {
            double distance = hit(&spheres[cell->spheres[k]], from, way);
            if (distance < *far) *far = distance, found = &spheres[cell->spheres[k]];
        }
        if (found && *far <= next[d] + 1e-9) return found;
        at[d] += step[d], next[d] += wide[d];
    }
    return NULL;
}

static double shade(const double *from, const double *way, int depth) {
    double far, light = 0.1, place[3], normal[3], back[3], along = 0;
    const double lamp[3] = {0.48, 0.6, 0.64};
    const Sphere *s = nearest(from, way, &far);
    if (!s) return 0.05 + 0.05 * way[1];
    for (int d = 0; d < 3; d++) {
        place[d] = from[d] + far * way[d];
        normal[d] = (place[d] - s->centre[d]) / s->radius;
        along += normal[d] * lamp[d];
    }
    double unused, turn = 0;
    if (along > 0 && !nearest(place, lamp, &unused)) light += 0.8 * along;
    light *= (s->colour[0] + s->colour[1] + s->colour[2]) / 3;
    for (int d = 0; d < 3; d++) turn += way[d] * normal[d];
    for (int d = 0; d < 3; d++) back[d] = way[d] - 2 * turn * normal[d];
    return s->mirror > 0 && depth < 4 ? light + s->mirror * shade(place, back, depth + 1) : light;
}

static int next_tile(int p) {
    for (int k = 0; k < threads; k++) {
        Queue *queue = &queues[(p + k) % threads];
        pthread_mutex_lock(&queue->lock);
        int tile = queue->next < queue->end ? queue->next++ : -1;
        pthread_mutex_unlock(&queue->lock);
        if (tile >= 0) return tile;
    }
    return -1;
}

static void *work(void *argument) {
    int p = (int)(intptr_t)argument, tiles = (WIDTH / TILE) * (HEIGHT / TILE);
    for (int frame = 0; frame < 30 * scale; frame++) {
        queues[p].next = share(tiles, p), queues[p].end = share(tiles, p + 1);
        meet();
        for (int tile; (tile = next_tile(p)) >= 0;)
            for (int k = 0; k < TILE * TILE; k++) {
                int x = tile % (WIDTH / TILE) * TILE + k % TILE, y = tile / (WIDTH / TILE) * TILE + k / TILE;
                double from[3] = {CELLS / 2.0, CELLS / 2.0, 0.1 + 0.1 * (frame % 7)};
                double way[3] = {(x - WIDTH / 2 + 0.5) / HEIGHT, (y - HEIGHT / 2 + 0.5) / HEIGHT, 0.7};
                double length = sqrt(way[0] * way[0] + way[1] * way[1] + way[2] * way[2]);
                for (int d = 0; d < 3; d++) way[d] /= length;
                picture[y * WIDTH + x] = (uint32_t)(255 * fmin(1, shade(from, way, 0)));
            }
        meet();
    }
    return NULL;
}

int main(int argc, char **argv) {
    read_arguments(argc, argv);
    make_scene();
    picture = (uint32_t *)calloc(WIDTH * HEIGHT, sizeof *picture);
    for (int p = 0; p < threads; p++) pthread_mutex_init(&queues[p].lock, NULL);
    run_team(work);
    uint64_t sum = 0;
    for (int k = 0; k < WIDTH * HEIGHT; k++) sum += picture[k];
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
