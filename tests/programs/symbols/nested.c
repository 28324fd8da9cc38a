// A function in a function, which allocates.
#include <stdlib.h>

struct pair {
    long first, second;
};

long sum(long first, long second) {
    struct pair *pair;
    void allocate(void) {
        struct pair *made = malloc(sizeof *made);
        if (!made) abort();
        made->first = first;
        made->second = second;
        pair = made;
    }
    allocate();
    long all = pair->first + pair->second;
    free(pair);
    return all;
}

int main(int argc, char **argv) { return (int)sum(argc, argv[0][0]) & 1; }
