// Ranks that send a message round in a ring.
//
// Usage: mpi_ring TURNS BYTES
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    if (argc != 3) return 64;
    int rank, size, bytes = atoi(argv[2]);
    long turns = atol(argv[1]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char *buffer = calloc(1, bytes);
    for (long k = 0; k < turns; k++) {
        if (rank) MPI_Recv(buffer, bytes, MPI_CHAR, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        buffer[0]++;
        MPI_Send(buffer, bytes, MPI_CHAR, (rank + 1) % size, 0, MPI_COMM_WORLD);
        if (!rank) MPI_Recv(buffer, bytes, MPI_CHAR, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
