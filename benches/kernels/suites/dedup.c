// PARSEC dedup: a pipeline with queues between its stages: data cut into chunks where a rolling
// hash says so, chunks looked up in a hash table with locks, new ones compressed, all counted in
// order at the end. The two middle stages have THREADS threads each. Usage: dedup THREADS SCALE
#include "team.h"

enum { BYTES = 1 << 23, MAX_CHUNK = 8192, MIN_CHUNK = 512, BUCKETS = 1 << 12, ROOM = 64 };

typedef struct Chunk {
    struct Chunk *next; // in its bucket
    const unsigned char *data;
    unsigned char *packed;
    int bytes, packed_bytes, number, is_new;
    uint64_t hash;
} Chunk;

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    Chunk *items[ROOM];
    unsigned put, taken;
    int open; // those who still put
} Queue;

static Queue to_lookup, to_pack, to_count;
static Chunk *buckets[BUCKETS];
static pthread_mutex_t bucket_locks[BUCKETS];
static unsigned char *data;
static uint64_t unique_bytes, packed_bytes, order_hash;
static int chunks;

static void open_queue(Queue *queue, int writers) {
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->changed, NULL);
    queue->put = queue->taken = 0, queue->open = writers;
}

static void put(Queue *queue, Chunk *chunk) {
    pthread_mutex_lock(&queue->lock);
    while (queue->put - queue->taken == ROOM) pthread_cond_wait(&queue->changed, &queue->lock);
    queue->items[queue->put++ % ROOM] = chunk;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

static Chunk *get(Queue *queue) {
    pthread_mutex_lock(&queue->lock);
    while (queue->put == queue->taken && queue->open) pthread_cond_wait(&queue->changed, &queue->lock);
    Chunk *chunk = queue->put != queue->taken ? queue->items[queue->taken++ % ROOM] : NULL;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    return chunk;
}

static void leave(Queue *queue) {
    pthread_mutex_lock(&queue->lock);
    queue->open--;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

static void cut(void) {
    uint64_t rolling = 0;
    for (int start = 0, at = 0; start < BYTES; at++) {
        if (at < BYTES) rolling = (rolling << 1) + data[at] * 0x9e3779b97f4a7c15u;
        int length = at + 1 - start;
        if (at + 1 < BYTES && length < MAX_CHUNK && (length < MIN_CHUNK || rolling >> 53)) continue;
        Chunk *chunk = (Chunk *)calloc(1, sizeof *chunk);
        chunk->data = data + start, chunk->bytes = length, chunk->number = chunks++;
        put(&to_lookup, chunk);
        start = at + 1;
    }
    leave(&to_lookup);
}

static void *look_up(void *unused) {
    for (Chunk *chunk; (chunk = get(&to_lookup));) {
        uint64_t hash = 0xcbf29ce484222325u;
        for (int i = 0; i < chunk->bytes; i++) hash = (hash ^ chunk->data[i]) * 0x100000001b3u;
        int bucket = (int)(hash % BUCKETS);
        chunk->hash = hash;
        pthread_mutex_lock(&bucket_locks[bucket]);
        Chunk *known = buckets[bucket];
        while (known && known->hash != hash) known = known->next;
        if (!known) chunk->is_new = 1, chunk->next = buckets[bucket], buckets[bucket] = chunk;
        pthread_mutex_unlock(&bucket_locks[bucket]);
        put(chunk->is_new ? &to_pack : &to_count, chunk);
    }
    leave(&to_pack);
    leave(&to_count);
    return unused;
}

// Runs of the same byte, and copies of four bytes that came before.
static void *pack(void *unused) {
    for (Chunk *chunk; (chunk = get(&to_pack));) {
        int seen[1024] = {0}, n = 0;
        unsigned char *out = chunk->packed = (unsigned char *)malloc((size_t)chunk->bytes * 2 + 8);
        for (int i = 0; i < chunk->bytes;) {
            uint32_t four = 0;
            if (i + 4 <= chunk->bytes) memcpy(&four, chunk->data + i, 4);
            int *last = &seen[four * 2654435761u >> 22], from = *last - 1;
            *last = i + 1;
            int same = 0;
            while (from >= 0 && same < 255 && i + same < chunk->bytes &&
                   chunk->data[from + same] == chunk->data[i + same])
                same++;
            if (same >= 4) out[n++] = 1, out[n++] = (unsigned char)same, i += same;
            else out[n++] = chunk->data[i++];
        }
        chunk->packed_bytes = n;
        put(&to_count, chunk);
    }
    leave(&to_count);
    return unused;
}

static void *count(void *unused) {
    for (Chunk *chunk; (chunk = get(&to_count));) {
        order_hash += chunk->hash * (uint64_t)(chunk->number + 1);
        if (!chunk->is_new) continue;
        unique_bytes += (uint64_t)chunk->bytes;
        for (int i = 0; i < chunk->packed_bytes; i++) packed_bytes += chunk->packed[i] != 0;
    }
    return unused;
}

int main(int argc, char **argv) {
    read_arguments(argc, argv);
    uint64_t state = 8675309;
    data = (unsigned char *)malloc(BYTES);
    for (int i = 0; i < BYTES; i++) { // text of few letters; a third comes again
        int again = i > BYTES / 3 && (i >> 16) % 3 == 0;
        data[i] = again ? data[i - BYTES / 4] : (unsigned char)("etaoin shrdlu"[next_random(&state) % 13]);
    }
    for (int k = 0; k < BUCKETS; k++) pthread_mutex_init(&bucket_locks[k], NULL);
    for (int round = 0; round < 8 * scale; round++) {
        pthread_t lookers[MAX_THREADS], packers[MAX_THREADS], counter;
        memset(buckets, 0, sizeof buckets);
        open_queue(&to_lookup, 1), open_queue(&to_pack, threads), open_queue(&to_count, 2 * threads);
        for (int p = 0; p < threads; p++) {
            pthread_create(&lookers[p], NULL, look_up, NULL);
            pthread_create(&packers[p], NULL, pack, NULL);
        }
        pthread_create(&counter, NULL, count, NULL);
        cut();
        for (int p = 0; p < threads; p++) pthread_join(lookers[p], NULL), pthread_join(packers[p], NULL);
        pthread_join(counter, NULL);
    }
    printf("%d chunks, %llu bytes, %016llx\n", chunks, (unsigned long long)unique_bytes,
           (unsigned long long)order_hash);
    return packed_bytes == 0;
}
