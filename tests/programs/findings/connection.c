// A connection that one thread reads from and another writes to; both count in the same struct.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct connection {
    int descriptor;
    char peer[20];
    unsigned long received;
    unsigned long received_bytes;
#ifdef FIXED
    char unused[64];
#endif
    unsigned long sent;
    unsigned long sent_bytes;
};

static long packets;

static struct connection *open_connection(int descriptor) {
#ifdef FIXED
    struct connection *c = aligned_alloc(64, 192);
#else
    struct connection *c = malloc(sizeof *c); // @alloc
#endif
    memset(c, 0, sizeof *c);
    c->descriptor = descriptor;
    strcpy(c->peer, "192.0.2.7");
    return c;
}

static unsigned length_of(unsigned long *state) {
    *state = *state * 6364136223846793005UL + 1442695040888963407UL;
    return (unsigned)(*state >> 54);
}

static void *receive(void *arg) {
    struct connection *c = arg;
    unsigned long state = 1;
    for (long k = 0; k < packets; k++) {
        unsigned length = length_of(&state);
        __atomic_store_n(&c->received, c->received + 1, __ATOMIC_RELAXED);                 // @receive
        __atomic_store_n(&c->received_bytes, c->received_bytes + length, __ATOMIC_RELAXED); // @receive
    }
    return 0;
}

static void *transmit(void *arg) {
    struct connection *c = arg;
    unsigned long state = 2;
    for (long k = 0; k < packets; k++) {
        unsigned length = length_of(&state);
        __atomic_store_n(&c->sent, c->sent + 1, __ATOMIC_RELAXED);                 // @transmit
        __atomic_store_n(&c->sent_bytes, c->sent_bytes + length, __ATOMIC_RELAXED); // @transmit
    }
    return 0;
}

int main(int argc, char **argv) {
    packets = argc > 2 ? atol(argv[2]) : 60000000;
    struct connection *c = open_connection(3);
    pthread_t in, out;
    pthread_create(&in, 0, receive, c);
    pthread_create(&out, 0, transmit, c);
    pthread_join(in, 0);
    pthread_join(out, 0);
    printf("%s: %lu %lu, %lu %lu\n", c->peer, c->received, c->received_bytes, c->sent, c->sent_bytes);
    free(c);
    return 0;
}
