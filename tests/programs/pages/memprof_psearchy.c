// Like Psearchy (MemProf, section 5.4): threads share nothing, but what they allocate lies packed
// on pages that one of them has touched first.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, WORDS = 1600, LETTERS = 64, ROUNDS = 12 };

static char *pool;
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static size_t pool_used;
static pthread_barrier_t filled;

// Blocks come from one pool, whoever asks.
static char *take(size_t bytes) {
  pthread_mutex_lock(&pool_lock);
  char *block = pool + pool_used;
  pool_used += bytes;
  pthread_mutex_unlock(&pool_lock);
  return block;
}

static char *words[THREADS][WORDS];

static void *index_files(void *argument) {
  long me = (long)argument;
  // In turns, as threads of equal speed would.
  for (int w = 0; w < WORDS; w++) {
    if (w % 8 == 0)
      pthread_barrier_wait(&filled);
    words[me][w] = take(LETTERS);
  }
  pthread_barrier_wait(&filled);
  for (int round = 0; round < ROUNDS; round++)
    for (int w = 0; w < WORDS; w++) {
      unsigned long *letters = (unsigned long *)words[me][w];
      for (int i = 0; i < LETTERS / 8; i++)
        letters[i] += (unsigned long)(i + round);
    }
  return NULL;
}

int main(void) {
  size_t bytes = (size_t)THREADS * WORDS * LETTERS;
  pool = aligned_alloc(4096, bytes);
  for (size_t at = 0; at < bytes; at += 4096)
    pool[at] = 0;
  pthread_barrier_init(&filled, NULL, THREADS);
  pthread_t threads[THREADS];
  for (long t = 0; t < THREADS; t++)
    pthread_create(&threads[t], NULL, index_files, (void *)t);
  for (int t = 0; t < THREADS; t++)
    pthread_join(threads[t], NULL);
  printf("%s\n", "indexed");
  free(pool);
  return 0;
}
