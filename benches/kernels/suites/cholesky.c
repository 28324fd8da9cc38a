// Splash cholesky: a sparse symmetric matrix factored by panels of columns. A panel that all panels
// before it have changed goes into a queue; who takes it finishes it and changes later panels under
// their locks. Usage: cholesky THREADS SCALE
#include "team.h"

enum { PANELS = 40, W = 24, N = PANELS * W };

typedef struct {
    int panel, row;
    double block[W][W];
} Block; // of the panel's columns and `row`'s rows

static Block *blocks[PANELS][PANELS]; // by column and row; NULL = zero
static pthread_mutex_t locks[PANELS], queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int missing[PANELS], queue[PANELS], put, taken;
static unsigned char fills[PANELS][PANELS];

// Which blocks are not zero: a band, some far away, and what elimination adds.
static void plan(void) {
    for (int j = 0; j < PANELS; j++)
        for (int i = j; i < PANELS; i++)
            fills[j][i] = i - j < 2 || (i * 7 + j * 3) % 19 == 0 || i == PANELS - 1;
    for (int k = 0; k < PANELS; k++)
        for (int j = k + 1; j < PANELS; j++)
            for (int i = j; i < PANELS; i++) fills[j][i] |= fills[k][j] & fills[k][i];
}

static void fill(int p) {
    for (int j = p; j < PANELS; j += threads) {
        missing[j] = 0;
        for (int k = 0; k < j; k++) missing[j] += fills[k][j];
        for (int i = j; i < PANELS; i++) {
            if (!fills[j][i]) continue;
            if (!blocks[j][i]) blocks[j][i] = (Block *)malloc(sizeof(Block));
            for (int r = 0; r < W; r++)
                for (int c = 0; c < W; c++)
                    blocks[j][i]->block[r][c] = i == j && r == c ? 2.0 * N : 1.0 / (1 + (i * r + j * c) % 13);
        }
    }
}

static void add_task(int panel) {
    pthread_mutex_lock(&queue_lock);
    queue[put++] = panel;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&queue_lock);
}

static int get_task(void) {
    pthread_mutex_lock(&queue_lock);
    while (taken == put && taken < PANELS) {
        if (put == PANELS) break;
        pthread_cond_wait(&changed, &queue_lock);
    }
    int panel = taken < put ? queue[taken++] : -1;
    if (taken == PANELS) pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&queue_lock);
    return panel;
}

static void finish_panel(int k) {
    double(*d)[W] = blocks[k][k]->block;
    for (int c = 0; c < W; c++) {
        for (int s = 0; s < c; s++) d[c][c] -= d[c][s] * d[c][s];
        d[c][c] = sqrt(d[c][c]);
        for (int r = c + 1; r < W; r++) {
            for (int s = 0; s < c; s++) d[r][c] -= d[r][s] * d[c][s];
            d[r][c] /= d[c][c];
        }
    }
    for (int i = k + 1; i < PANELS; i++)
        for (int r = 0; r < W && fills[k][i]; r++)
            for (int c = 0; c < W; c++) {
                double *row = blocks[k][i]->block[r];
                for (int s = 0; s < c; s++) row[c] -= row[s] * d[c][s];
                row[c] /= d[c][c];
            }
}

static void change_block(Block *to, const Block *one, const Block *other) {
    for (int r = 0; r < W; r++)
        for (int c = 0; c < W; c++) {
            double sum = 0;
            for (int s = 0; s < W; s++) sum += one->block[r][s] * other->block[c][s];
            to->block[r][c] -= sum;
        }
}

static void *work(void *argument) {
    int p = (int)(intptr_t)argument;
    for (int round = 0; round < 30 * scale; round++) {
        fill(p);
        if (p == 0) put = taken = 0;
        meet();
        for (int j = p; j < PANELS; j += threads)
            if (!missing[j]) add_task(j); // only before the others' first
        meet();
        for (int k; (k = get_task()) >= 0;) {
            finish_panel(k);
            for (int j = k + 1; j < PANELS; j++) {
                if (!fills[k][j]) continue;
                pthread_mutex_lock(&locks[j]);
                for (int i = j; i < PANELS; i++)
                    if (fills[k][i]) change_block(blocks[j][i], blocks[k][i], blocks[k][j]);
                int left = --missing[j];
                pthread_mutex_unlock(&locks[j]);
                if (!left) add_task(j);
            }
        }
        meet();
    }
    return NULL;
}

int main(int argc, char **argv) {
    read_arguments(argc, argv);
    plan();
    for (int j = 0; j < PANELS; j++) pthread_mutex_init(&locks[j], NULL);
    run_team(work);
    double sum = 0;
    for (int j = 0; j < PANELS; j++)
        for (int c = 0; c < W; c++) sum += log(blocks[j][j]->block[c][c]);
    printf("%.6f\n", sum);
    return 0;
}
