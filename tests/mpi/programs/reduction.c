/* Reductions: operators of the standard, of pairs, and of the program; in place; to all, to one, by parts, in order. */
#include <mpi.h>
#include <stdio.h>

enum { COUNT = 1000 };

struct pair {
    double value;
    int rank;
};

static void affine(void *in, void *inout, int *count, MPI_Datatype *type)
{
    double *a = in, *b = inout; /* x -> a0 x + a1, first a and then b */
    int i;

    (void)type;
    for (i = 0; i < *count; i++, a += 2, b += 2) {
        b[1] += a[1] * b[0];
        b[0] *= a[0];
    }
}

int main(void)
{
    int rank, size, i, one, counts[64], initialized;
    double values[COUNT], sums[COUNT], line[2], part[2], wanted;
    long before, sum = 0;
    struct pair mine, least;
    MPI_Datatype lines;
    MPI_Op compose;

    MPI_Initialized(&initialized);
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (i = 0; i < COUNT; i++)
        values[i] = i * (rank + 1);
    MPI_Allreduce(values, sums, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, values, COUNT, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    mine.value = (rank - 1) * (rank - 1);
    mine.rank = rank;
    MPI_Allreduce(&mine, &least, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
    before = rank + 1;
    MPI_Scan(&before, &sum, 1, MPI_LONG, MPI_PROD, MPI_COMM_WORLD);
    for (i = 0; i < size; i++)
        counts[i] = i == 0 ? 2 : 0;
    part[0] = part[1] = -1;
    line[0] = 2 + rank;
    line[1] = 1;
    MPI_Reduce_scatter(line, part, counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Type_contiguous(2, MPI_DOUBLE, &lines);
    MPI_Type_commit(&lines);
    MPI_Op_create(affine, 0, &compose);
    MPI_Allreduce(MPI_IN_PLACE, line, 1, lines, compose, MPI_COMM_WORLD);
    MPI_Op_free(&compose);
    MPI_Type_free(&lines);
    one = rank == size - 1;
    MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD);
    wanted = 999.0 * size * (size + 1) / 2;
    printf("%d of %d: %g %g %g, least %g at %d, product %ld, part %g %g, line %g %g, any %d, began %d\n", rank, size,
           sums[999] - wanted, sums[1], values[999], least.value, least.rank, sum, part[0], part[1], line[0], line[1], one,
           initialized);
    MPI_Finalize();
    return 0;
}
