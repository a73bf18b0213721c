/* A token goes around, and each rank adds its number; all know each other's neighbours by Sendrecv. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, size, token = 0, left, right, from_left, from_right;
    MPI_Status status;
    MPI_Request requests[2];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
    if (rank == 0) {
        MPI_Send(&token, 1, MPI_INT, right, 7, MPI_COMM_WORLD);
        MPI_Recv(&token, 1, MPI_INT, left, 7, MPI_COMM_WORLD, &status);
    } else {
        MPI_Recv(&token, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        token += rank;
        MPI_Send(&token, 1, MPI_INT, right, 7, MPI_COMM_WORLD);
    }
    MPI_Irecv(&from_left, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&rank, 1, MPI_INT, right, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Sendrecv(&rank, 1, MPI_INT, left, 2, &from_right, 1, MPI_INT, right, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("%d: token %d from %d with tag %d; left %d, right %d; %s\n", rank, token, status.MPI_SOURCE, status.MPI_TAG,
           from_left, from_right, argv[argc - 1]);
    MPI_Finalize();
    return 0;
}
