/* Heat on a plate that is cut into tiles: rows are contiguous, columns are a vector type; a Cartesian communicator. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 6, COLUMNS = 5, STEPS = 20 };

int main(void)
{
    int size, rank, up, down, left, right, i, j, step, dims[2] = {0, 0}, periods[2] = {0, 1}, place[2];
    double plate[ROWS + 2][COLUMNS + 2], next[ROWS + 2][COLUMNS + 2], heat = 0, all, change, most;
    MPI_Comm plane;
    MPI_Datatype column;

    MPI_Init(NULL, NULL);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &plane);
    MPI_Comm_rank(plane, &rank);
    MPI_Cart_coords(plane, rank, 2, place);
    MPI_Cart_shift(plane, 0, 1, &up, &down);
    MPI_Cart_shift(plane, 1, 1, &left, &right);
    MPI_Type_vector(ROWS, 1, COLUMNS + 2, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    memset(plate, 0, sizeof plate);
    memset(next, 0, sizeof next);
    for (i = 1; i <= ROWS; i++)
        for (j = 1; j <= COLUMNS; j++)
            plate[i][j] = 10 * rank + i * j;
    for (step = 0; step < STEPS; step++) {
        MPI_Sendrecv(&plate[1][1], COLUMNS, MPI_DOUBLE, up, 0, &plate[ROWS + 1][1], COLUMNS, MPI_DOUBLE, down, 0, plane,
                     MPI_STATUS_IGNORE);
        MPI_Sendrecv(&plate[ROWS][1], COLUMNS, MPI_DOUBLE, down, 1, &plate[0][1], COLUMNS, MPI_DOUBLE, up, 1, plane,
                     MPI_STATUS_IGNORE);
        MPI_Sendrecv(&plate[1][1], 1, column, left, 2, &plate[1][COLUMNS + 1], 1, column, right, 2, plane,
                     MPI_STATUS_IGNORE);
        MPI_Sendrecv(&plate[1][COLUMNS], 1, column, right, 3, &plate[1][0], 1, column, left, 3, plane,
                     MPI_STATUS_IGNORE);
        change = 0;
        for (i = 1; i <= ROWS; i++)
            for (j = 1; j <= COLUMNS; j++) {
                next[i][j] = (plate[i - 1][j] + plate[i + 1][j] + plate[i][j - 1] + plate[i][j + 1]) / 4;
                change += (next[i][j] - plate[i][j]) * (next[i][j] - plate[i][j]);
            }
        memcpy(plate, next, sizeof plate);
        MPI_Allreduce(&change, &most, 1, MPI_DOUBLE, MPI_MAX, plane);
    }
    for (i = 1; i <= ROWS; i++)
        for (j = 1; j <= COLUMNS; j++)
            heat += plate[i][j];
    MPI_Reduce(&heat, &all, 1, MPI_DOUBLE, MPI_SUM, 0, plane);
    printf("%d at %d, %d: heat %.12g\n", rank, place[0], place[1], heat);
    if (rank == 0)
        printf("all %.9g, change %.12g\n", all, most);
    MPI_Type_free(&column);
    MPI_Comm_free(&plane);
    MPI_Finalize();
    return 0;
}
