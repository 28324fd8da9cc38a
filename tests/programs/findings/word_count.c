// Counts words, lines and characters of a text in parallel. Each thread keeps its counts in its
// element of an array on the heap, which is smaller than a cache line.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tally {
    long lines, words, chars;
#ifdef FIXED
    char unused[64 - 3 * sizeof(long)];
#endif
};

struct job {
    const char *text;
    size_t length;
    int rounds;
    struct tally *tally;
};

static void *count(void *arg) {
    struct job *job = arg;
    struct tally *tally = job->tally;
    for (int round = 0; round < job->rounds; round++) {
        int in_word = 0;
        for (const char *at = job->text; at < job->text + job->length; at++) {
            tally->chars++; // @count
            if (*at == '\n')
                tally->lines++; // @count
            if (*at == ' ' || *at == '\n')
                in_word = 0;
            else if (!in_word) {
                in_word = 1;
                tally->words++; // @count
            }
        }
    }
    return 0;
}

static char *make_text(size_t length) {
    static const char *words[] = {"the ", "cache ", "line ", "moves ", "between ", "cores\n"};
    char *text = malloc(length + 16);
    size_t used = 0;
    unsigned seed = 1;
    while (used < length) {
        seed = seed * 1103515245 + 12345;
        const char *word = words[seed / 65536 % 6];
        strcpy(text + used, word);
        used += strlen(word);
    }
    return text;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    int rounds = argc > 2 ? atoi(argv[2]) : 200;
    size_t length = 1 << 20, part = length / (size_t)threads;
    char *text = make_text(length);
#ifdef FIXED
    struct tally *tallies = aligned_alloc(64, (size_t)threads * sizeof *tallies);
    memset(tallies, 0, (size_t)threads * sizeof *tallies);
#else
    struct tally *tallies = calloc((size_t)threads, sizeof *tallies); // @alloc
#endif
    struct job *jobs = calloc((size_t)threads, sizeof *jobs);
    pthread_t *ids = calloc((size_t)threads, sizeof *ids);
    for (int k = 0; k < threads; k++) {
        jobs[k] = (struct job){text + (size_t)k * part, part, rounds, &tallies[k]};
        pthread_create(&ids[k], 0, count, &jobs[k]);
    }
    struct tally sum = {0};
    for (int k = 0; k < threads; k++) {
        pthread_join(ids[k], 0);
        sum.lines += tallies[k].lines;
        sum.words += tallies[k].words;
        sum.chars += tallies[k].chars;
    }
    printf("%ld lines, %ld words, %ld characters\n", sum.lines, sum.words, sum.chars);
    free(tallies);
    free(jobs);
    free(ids);
    free(text);
    return 0;
}
