// Each thread works on a part of its own of an array that the main thread has initialised; with
// `own`, each initialises its part itself.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, WORDS = 16 * 512, ROUNDS = 6 };

static long *array;
static int touch_own;

static void *work(void *argument) {
  long *part = array + (long)argument * WORDS;
  if (touch_own)
    for (int i = 0; i < WORDS; i++)
      part[i] = i;
  for (int round = 0; round < ROUNDS; round++)
    for (int i = 0; i < WORDS; i++)
      part[i] += round;
  return NULL;
}

int main(int count, char **words) {
  touch_own = count > 1 && strcmp(words[1], "own") == 0;
  array = aligned_alloc(4096, THREADS * WORDS * sizeof *array);
  if (!touch_own)
    for (int i = 0; i < THREADS * WORDS; i++)
      array[i] = i;
  pthread_t threads[THREADS];
  for (long t = 0; t < THREADS; t++)
    pthread_create(&threads[t], NULL, work, (void *)t);
  for (int t = 0; t < THREADS; t++)
    pthread_join(threads[t], NULL);
  printf("%s\n", "worked");
  free(array);
  return 0;
}
