// Like Streamcluster (MemProf, section 5.3): one array, read in by the main thread, that all
// threads read and write at the same time.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, POINTS = 512, DIMENSIONS = 32, ROUNDS = 4 };

static float *block;
static float costs[THREADS][64];

static float distance(const float *a, const float *b) {
  float sum = 0;
  for (int d = 0; d < DIMENSIONS; d++)
    sum += (a[d] - b[d]) * (a[d] - b[d]);
  return sum;
}

static void *cluster(void *argument) {
  long me = (long)argument;
  for (int round = 0; round < ROUNDS; round++)
    for (int i = 0; i < POINTS; i++) {
      // A point that any thread may have, as the threads divide them anew each round.
      int point = (i * 7 + (int)me * 131 + round * 53) % POINTS;
      float *own = block + point * DIMENSIONS;
      costs[me][0] += distance(own, block + (point * 5 + 1) % POINTS * DIMENSIONS);
      for (int d = 0; d < DIMENSIONS; d += 2)
        own[d] += 0.5f;
    }
  return NULL;
}

int main(void) {
  block = aligned_alloc(4096, POINTS * DIMENSIONS * sizeof *block);
  for (int i = 0; i < POINTS * DIMENSIONS; i++)
    block[i] = (float)(i % 101);
  pthread_t threads[THREADS];
  for (long t = 0; t < THREADS; t++)
    pthread_create(&threads[t], NULL, cluster, (void *)t);
  float all = 0;
  for (int t = 0; t < THREADS; t++) {
    pthread_join(threads[t], NULL);
    all += costs[t][0];
  }
  printf("%s\n", all > 0 ? "clustered" : "empty");
  free(block);
  return 0;
}
