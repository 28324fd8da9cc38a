/* Threads that each use an element of their own: of a typed block, of a variable, and of a block
 * whose type nobody tells. */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, ROUNDS = 400, STRIDE = 40 };

struct worker {
	long hits;
	struct {
		int owner;
		int waiting;
	} lock;
	long spare;
};

struct slot {
	volatile long head;
	volatile int tail[4];
};

static struct worker *workers;
static struct slot slots[THREADS];
static uintptr_t untyped;
static pthread_barrier_t together;

static void *work(void *argument)
{
	long me = (long)argument;
	volatile long *hits = &workers[me].hits;
	volatile int *owner = &workers[me].lock.owner;
	volatile long *own = (volatile long *)(untyped + (uintptr_t)(me * STRIDE));

	for (int round = 0; round < ROUNDS; round++) {
		++*hits;
		++*owner;
		slots[me].head++;
		slots[me].tail[2]++;
		++*own;
		if (round % 4 == 0)
			pthread_barrier_wait(&together);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];

	pthread_barrier_init(&together, NULL, THREADS);
	workers = calloc(THREADS, sizeof *workers);
	untyped = (uintptr_t)calloc(THREADS, STRIDE);
	if (!workers || !untyped)
		return 1;
	for (long t = 0; t < THREADS; t++)
		pthread_create(&threads[t], NULL, work, (void *)t);
	for (int t = 0; t < THREADS; t++)
		pthread_join(threads[t], NULL);
	printf("%ld %ld\n", workers[0].hits, slots[3].head);
	return 0;
}
