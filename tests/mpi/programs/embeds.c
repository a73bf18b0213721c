/* A program that has an interpreter of its own: it calls MPI from C and from Python. */
#include <mpi.h>
#include <stdio.h>

void Py_Initialize(void);
int PyRun_SimpleString(const char *);
int Py_FinalizeEx(void);

int main(int argc, char **argv)
{
    int rank, sum;

    Py_Initialize();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("C: rank %d, sum %d\n", rank, sum);
    fflush(stdout);
    if (PyRun_SimpleString("from mpi4py import MPI\n"
                           "comm = MPI.COMM_WORLD\n"
                           "print('Python: rank', comm.rank, 'sum', comm.allreduce(comm.rank), flush=True)\n"))
        return 1;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return Py_FinalizeEx();
}
