// The patterns of patterns.h on OpenMP, for GNU's and LLVM's runtime. The initial thread takes
// part: participants are threads 0 to N-1.
#include "patterns.h"

#include <omp.h>

int main(int argc, char **argv) {
    Setup setup = read_setup(argc, argv, 0);
    uint64_t *regions = map_regions(&setup);
    static uint64_t sums[MAX_PARTICIPANTS];
    omp_set_dynamic(0);
#pragma omp parallel num_threads(setup.participants)
    {
        int p = omp_get_thread_num();
        uint64_t sum = 0;
        for (int round = 0; round < setup.rounds; round++) {
            sum += write_half(&setup, regions, p, round);
#pragma omp barrier
            sum += read_half(&setup, regions, p);
#pragma omp barrier
        }
        sums[p] = sum;
    }
    for (int p = 0; p < setup.participants; p++)
        printf("checksum %d %llu\n", p, (unsigned long long)sums[p]);
    print_expected(&setup);
    return 0;
}
