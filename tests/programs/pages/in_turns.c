// Threads use a buffer one after the other, each for a while.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 4, WORDS = 16 * 512, ROUNDS = 8 };

static long *buffer;

static void *use(void *argument) {
  (void)argument;
  for (int round = 0; round < ROUNDS; round++)
    for (int i = 0; i < WORDS; i++)
      buffer[i] += round;
  return NULL;
}

int main(void) {
  buffer = aligned_alloc(4096, WORDS * sizeof *buffer);
  for (int i = 0; i < WORDS; i += 512)
    buffer[i] = 0;
  pthread_t thread;
  for (int turn = 0; turn < THREADS; turn++) {
    pthread_create(&thread, NULL, use, NULL);
    pthread_join(thread, NULL);
    // Long enough for a recorder on a busy machine to look in between.
    usleep(400000);
  }
  printf("%s\n", "used");
  free(buffer);
  return 0;
}
