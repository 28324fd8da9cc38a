// Splash radiosity: light between patches. Each thread has a queue of tasks, and takes from others'
// when its own is empty; refining splits patches into trees of elements, linked by lists of
// interactions under the elements' locks; gathering walks these lists. Usage: radiosity THREADS
// SCALE
#include "team.h"
#include <sched.h>

enum { PATCHES = 96, MAX_ELEMENTS = 1 << 16, MAX_LINKS = 1 << 20, LOCKS = 1024 };

typedef struct Element Element;

typedef struct Link {
    struct Link *next;
    Element *from;
    double factor;
} Link;

struct Element {
    Element *child[4];
    Link *links;
    pthread_mutex_t *lock;
    double place[3], normal[3], area, light, gathered, own;
};

typedef struct Task {
    struct Task *next;
    Element *one, *other; // without another: gather
} Task;

typedef struct {
    pthread_mutex_t lock;
    Task *first, *last, *unused;
    char pad[64];
} Queue;

static Element *elements, *patches[PATCHES];
static Link *links;
static Queue queues[MAX_THREADS];
static pthread_mutex_t locks[LOCKS], element_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t link_lock = PTHREAD_MUTEX_INITIALIZER;
static int elements_used, links_used, pending;

static int take(pthread_mutex_t *lock, int *used, int most) {
    pthread_mutex_lock(lock);
    int number = (*used)++;
    pthread_mutex_unlock(lock);
    if (number >= most) abort();
    return number;
}

static Element *new_element(Element *parent, const double *place, double area) {
    int number = take(&element_lock, &elements_used, MAX_ELEMENTS);
    Element *e = &elements[number];
    memset(e, 0, sizeof *e);
    memcpy(e->place, place, sizeof e->place);
    if (parent) memcpy(e->normal, parent->normal, sizeof e->normal);
    e->area = area, e->lock = &locks[number % LOCKS];
    if (parent) e->own = parent->own, e->light = parent->light;
    return e;
}

static void put(int p, Element *one, Element *other) {
    Queue *queue = &queues[p];
    __atomic_fetch_add(&pending, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&queue->lock);
    Task *task = queue->unused;
    if (task) queue->unused = task->next;
    else task = (Task *)malloc(sizeof *task);
    *task = (Task){NULL, one, other};
    if (queue->last) queue->last->next = task;
    else queue->first = task;
    queue->last = task;
    pthread_mutex_unlock(&queue->lock);
}

// A task of the thread's, or else of the next that has one; whether there was any.
static int get(int p, Task *found) {
    for (int k = 0; k < threads; k++) {
        Queue *queue = &queues[(p + k) % threads];
        pthread_mutex_lock(&queue->lock);
        Task *task = queue->first;
        if (task) {
            queue->first = task->next;
            if (!queue->first) queue->last = NULL;
            *found = *task;
            task->next = queue->unused, queue->unused = task;
        }
        pthread_mutex_unlock(&queue->lock);
        if (task) return 1;
    }
    return 0;
}

static void split(Element *e) {
    pthread_mutex_lock(e->lock);
    for (int k = 0; k < 4 && !e->child[3]; k++) {
        double place[3], side = sqrt(e->area) / 4;
        for (int d = 0, axis = 0; d < 3; d++) {
            double away = e->normal[d] != 0 ? 0 : (k >> axis++ & 1 ? side : -side);
            place[d] = e->place[d] + away;
        }
        Element *child = new_element(e, place, e->area / 4);
        __atomic_store_n(&e->child[k], child, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(e->lock);
}

static double form_factor(const Element *to, const Element *from) {
    double way[3], r2 = 1e-3, here = 0, there = 0;
    for (int d = 0; d < 3; d++) way[d] = from->place[d] - to->place[d], r2 += way[d] * way[d];
    for (int d = 0; d < 3; d++) here += way[d] * to->normal[d], there -= way[d] * from->normal[d];
    return here > 0 && there > 0 ? here * there * from->area / (M_PI * r2 * r2 + from->area) : 0;
}

static void link_to(Element *to, Element *from, double factor) {
    Link *link = &links[take(&link_lock, &links_used, MAX_LINKS)];
    pthread_mutex_lock(to->lock);
    *link = (Link){to->links, from, factor};
    to->links = link;
    pthread_mutex_unlock(to->lock);
}

// What sees much of another is linked in parts.
static void refine(int p, Element *to, Element *from) {
    double factor = form_factor(to, from);
    if (factor <= 0) return;
    if (factor < 0.004 || from->area < 0.02) {
        link_to(to, from, factor);
        return;
    }
    Element *larger = from->area >= to->area ? from : to;
    split(larger);
    for (int k = 0; k < 4; k++)
        put(p, larger == to ? to->child[k] : to, larger == to ? from : from->child[k]);
}

// Light comes down the tree to its leaves, and their mean goes up again.
static double gather(Element *e, double above) {
    pthread_mutex_lock(e->lock);
    double sum = above, mean = 0;
    for (Link *link = e->links; link; link = link->next) sum += link->factor * link->from->light;
    pthread_mutex_unlock(e->lock);
    if (!e->child[3]) mean = e->own + 0.6 * sum;
    else
        for (int k = 0; k < 4; k++) mean += gather(e->child[k], sum) / 4;
    e->gathered = mean;
    return mean;
}

static void settle(Element *e) {
    e->light = e->gathered;
    for (int k = 0; k < 4 && e->child[3]; k++) settle(e->child[k]);
}

static void run_tasks(int p) {
    for (Task task; __atomic_load_n(&pending, __ATOMIC_ACQUIRE) > 0;) {
        if (!get(p, &task)) {
            sched_yield();
            continue;
        }
        if (task.other) refine(p, task.one, task.other);
        else gather(task.one, 0);
        __atomic_fetch_sub(&pending, 1, __ATOMIC_RELEASE);
    }
    meet();
}

static void make_patches(void) {
    elements_used = links_used = 0;
    for (int n = 0; n < PATCHES; n++) { // squares on the walls of a room
        int wall = n % 6, at = n / 6, axis = wall / 2;
        double place[3];
        for (int d = 0, k = 0; d < 3; d++)
            place[d] = d == axis ? (wall % 2 ? 4 : 0) : (k++ ? at / 4 : at % 4) + 0.5;
        patches[n] = new_element(NULL, place, 1);
        patches[n]->normal[axis] = wall % 2 ? -1 : 1;
        patches[n]->own = patches[n]->light = n == 5 || n == 23;
    }
}

static void *work(void *argument) {
    int p = (int)(intptr_t)argument;
    for (int scene = 0; scene < 12 * scale; scene++) {
        if (p == 0) make_patches();
        meet();
        for (int a = p; a < PATCHES; a += threads)
            for (int b = 0; b < PATCHES; b++)
                if (a != b) put(p, patches[a], patches[b]);
        meet();
        run_tasks(p);
        for (int round = 0; round < 6; round++) {
            for (int a = share(PATCHES, p); a < share(PATCHES, p + 1); a++) put(p, patches[a], NULL);
            meet();
            run_tasks(p);
            for (int a = share(PATCHES, p); a < share(PATCHES, p + 1); a++) settle(patches[a]);
            meet();
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    read_arguments(argc, argv);
    elements = (Element *)malloc(MAX_ELEMENTS * sizeof *elements);
    links = (Link *)malloc(MAX_LINKS * sizeof *links);
    for (int k = 0; k < LOCKS; k++) pthread_mutex_init(&locks[k], NULL);
    for (int p = 0; p < threads; p++) pthread_mutex_init(&queues[p].lock, NULL);
    run_team(work);
    double light = 0;
    for (int n = 0; n < PATCHES; n++) light += patches[n]->light;
    printf("%d elements, %d interactions, light %.6f\n", elements_used, links_used, light);
    return 0;
}
