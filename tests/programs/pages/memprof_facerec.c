// Like FaceRec (MemProf, section 5.2): one of many matrices, set up by the main thread, is read by
// all threads all the time. The others are each one thread's own.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, WORDS = 16 * 512, MATRICES = 12, ROUNDS = 6 };

static double *transform;
static double sums[THREADS][64];

static double *make_matrix(void) {
  return aligned_alloc(4096, WORDS * sizeof(double));
}

static void *recognise(void *argument) {
  long me = (long)argument;
  double *image = make_matrix();
  for (int i = 0; i < WORDS; i++)
    image[i] = i + me;
  for (int round = 0; round < ROUNDS; round++) {
    double sum = 0;
    for (int i = 0; i < WORDS; i++)
      sum += image[(i + round) % 512] * transform[i];
    sums[me][0] += sum;
  }
  free(image);
  return NULL;
}

int main(void) {
  double *matrices[MATRICES];
  for (int m = 0; m < MATRICES; m++)
    matrices[m] = make_matrix();
  transform = matrices[MATRICES / 2];
  for (int i = 0; i < WORDS; i++)
    transform[i] = 1.0 / (i + 1);
  pthread_t threads[THREADS];
  for (long t = 0; t < THREADS; t++)
    pthread_create(&threads[t], NULL, recognise, (void *)t);
  double all = 0;
  for (int t = 0; t < THREADS; t++) {
    pthread_join(threads[t], NULL);
    all += sums[t][0];
  }
  printf("%.3f\n", all);
  for (int m = 0; m < MATRICES; m++)
    free(matrices[m]);
  return 0;
}
