// Like Apache (MemProf, section 5.5): teams of threads, each with a pool that all of the team read
// and write and no other thread uses.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEAMS = 2, MEMBERS = 2, THREADS = TEAMS * MEMBERS, WORDS = 32 * 512, ROUNDS = 3 };

static long *pools[TEAMS];
static long sums[THREADS][64];

static void *serve(void *argument) {
  long me = (long)argument;
  // Neighbours in number are of different teams.
  long *pool = pools[me % TEAMS];
  for (int round = 0; round < ROUNDS; round++)
    for (int i = 0; i < WORDS; i++) {
      sums[me][0] += pool[i];
      if (i % 4 == 0)
        __atomic_fetch_add(&pool[i], 1, __ATOMIC_RELAXED);
    }
  return NULL;
}

int main(void) {
  for (int p = 0; p < TEAMS; p++) {
    pools[p] = aligned_alloc(4096, WORDS * sizeof(long));
    for (int i = 0; i < WORDS; i += 512)
      pools[p][i] = 0;
  }
  pthread_t threads[THREADS];
  for (long t = 0; t < THREADS; t++)
    pthread_create(&threads[t], NULL, serve, (void *)t);
  for (int t = 0; t < THREADS; t++)
    pthread_join(threads[t], NULL);
  printf("%s\n", "served");
  for (int p = 0; p < TEAMS; p++)
    free(pools[p]);
  return 0;
}
