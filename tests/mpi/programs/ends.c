/* How a program can end: the first argument says how rank 1 does. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank, is_over, x;
    const char *how = argc > 1 ? argv[1] : "";

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    printf("rank %d has begun\n", rank);
    if (rank == 1) {
        if (!strcmp(how, "exit"))
            exit(3);
        if (!strcmp(how, "abort"))
            MPI_Abort(MPI_COMM_WORLD, 5);
        if (!strcmp(how, "kill"))
            raise(SIGKILL);
        if (!strcmp(how, "interrupt"))
            raise(SIGINT);
        if (!strcmp(how, "error"))
            MPI_Send(&x, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(how, "return"))
        return 0; /* without MPI_Finalize */
    MPI_Finalize();
    MPI_Finalized(&is_over);
    printf("rank %d is over: %d\n", rank, is_over);
    return !strcmp(how, "later") && rank == 1 ? 4 : 0;
}
