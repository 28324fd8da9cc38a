// Splash radix: keys sorted by digits of ten bits. Histograms of the threads are summed up over a
// tree with a flag at each node; then each thread writes its keys to wherever they belong. Usage:
// radix THREADS SCALE
#include "team.h"

enum { KEYS = 1 << 21, BITS = 10, RADIX = 1 << BITS, PASSES = 2 };

typedef struct {
    int counts[RADIX];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int round; // in which the counts were made
} Node;

static uint32_t *keys[2];
static Node nodes[2 * MAX_THREADS]; // a heap: those of the threads are the last
static int leaves, ranks[MAX_THREADS][RADIX];

static void publish(Node *node, int round) {
    pthread_mutex_lock(&node->lock);
    node->round = round;
    pthread_cond_broadcast(&node->changed);
    pthread_mutex_unlock(&node->lock);
}

static void await(Node *node, int round) {
    pthread_mutex_lock(&node->lock);
    while (node->round < round) pthread_cond_wait(&node->changed, &node->lock);
    pthread_mutex_unlock(&node->lock);
}

// The first thread of each pair sums up the pair's node.
static void sum_up(int p, int round) {
    int at = leaves + p;
    for (publish(&nodes[at], round); at > 1 && at % 2 == 0; at /= 2) {
        await(&nodes[at + 1], round);
        for (int d = 0; d < RADIX; d++)
            nodes[at / 2].counts[d] = nodes[at].counts[d] + nodes[at + 1].counts[d];
        publish(&nodes[at / 2], round);
    }
    await(&nodes[1], round);
}

// Where the thread's first key of each digit goes: behind all smaller digits, and behind its left
// siblings.
static void find_places(int p, int *place) {
    for (int d = 0, before = 0; d < RADIX; before += nodes[1].counts[d++]) place[d] = before;
    for (int at = leaves + p; at > 1; at /= 2)
        for (int d = 0; d < RADIX && at % 2; d++) place[d] += nodes[at - 1].counts[d];
}

static void *work(void *argument) {
    int p = (int)(intptr_t)argument, first = share(KEYS, p), last = share(KEYS, p + 1), round = 0;
    for (int sort = 0; sort < 30 * scale; sort++) {
        uint64_t state = 0x9e3779b97f4a7c15u * (uint64_t)(p + 1) + (uint64_t)sort;
        for (int i = first; i < last; i++) keys[0][i] = (uint32_t)next_random(&state) >> 12;
        meet();
        for (int pass = 0; pass < PASSES; pass++) {
            uint32_t *from = keys[pass % 2], *to = keys[1 - pass % 2];
            int shift = pass * BITS, *count = nodes[leaves + p].counts, *place = ranks[p];
            for (int d = 0; d < RADIX; d++) count[d] = 0;
            for (int i = first; i < last; i++) count[from[i] >> shift & (RADIX - 1)]++;
            sum_up(p, ++round);
            find_places(p, place);
            meet();
            for (int i = first; i < last; i++) to[place[from[i] >> shift & (RADIX - 1)]++] = from[i];
            meet();
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    read_arguments(argc, argv);
    for (leaves = 1; leaves < threads;) leaves *= 2;
    for (int n = 0; n < 2 * leaves; n++) {
        pthread_mutex_init(&nodes[n].lock, NULL);
        pthread_cond_init(&nodes[n].changed, NULL);
        if (n >= leaves + threads) nodes[n].round = 1 << 30; // no thread's: nothing counts there
    }
    for (int n = leaves - 1; n > 0; n--)
        if (nodes[2 * n].round && nodes[2 * n + 1].round) nodes[n].round = 1 << 30;
    for (int k = 0; k < 2; k++) keys[k] = (uint32_t *)malloc(KEYS * sizeof *keys[k]);
    run_team(work);
    uint64_t sum = 0;
    int in_order = 1;
    for (int i = 0; i < KEYS; i++) {
        sum = sum * 31 + keys[0][i];
        in_order &= i == 0 || keys[0][i - 1] <= keys[0][i];
    }
    printf("%d %016llx\n", in_order, (unsigned long long)sum);
    return !in_order;
}
