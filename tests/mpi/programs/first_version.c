/* Functions of MPI's first version, with a struct type and an attribute that a copy of a communicator gets. */
#include <mpi.h>
#include <stdio.h>

struct particle {
    char kind;
    double place[3];
    int charge;
};

static int handled = 0;

static void on_error(MPI_Comm *comm, int *code, ...)
{
    int kind;

    MPI_Error_class(*code, &kind);
    handled = *comm == MPI_COMM_WORLD && kind == MPI_ERR_RANK;
}

int main(int argc, char **argv)
{
    struct particle mine = {'e', {1.5, 2.5, 3.5}, -1}, got = {'x', {0, 0, 0}, 0};
    int rank, size, has, key, lengths[] = {1, 3, 1}, word = 42, *kept = NULL, *bound = NULL;
    MPI_Aint places[3], extent, low, high;
    MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT}, type;
    MPI_Errhandler handler;
    MPI_Comm copy;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Address(&mine.kind, &places[0]);
    MPI_Address(&mine.place, &places[1]);
    MPI_Address(&mine.charge, &places[2]);
    places[1] -= places[0];
    places[2] -= places[0];
    places[0] = 0;
    MPI_Type_struct(3, lengths, places, types, &type);
    MPI_Type_commit(&type);
    MPI_Type_extent(type, &extent);
    MPI_Type_lb(type, &low);
    MPI_Type_ub(type, &high);
    mine.charge = -1 - rank;
    MPI_Sendrecv(&mine, 1, type, (rank + 1) % size, 0, &got, 1, type, (rank + size - 1) % size, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, &key, NULL);
    MPI_Attr_put(MPI_COMM_WORLD, key, &word);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Attr_get(copy, key, &kept, &has);
    printf("%d: %c %g %g %g %d; extent %ld from %ld to %ld; attribute %d %d\n", rank, got.kind, got.place[0], got.place[1],
           got.place[2], got.charge, (long)extent, (long)low, (long)high, has, has ? *kept : -1);
    MPI_Attr_delete(copy, key);
    MPI_Attr_get(copy, key, &kept, &has);
    printf("%d: deleted %d", rank, !has);
    MPI_Attr_get(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &has);
    printf(", tags %d", has && *bound >= 32767);
    MPI_Errhandler_create(on_error, &handler);
    MPI_Errhandler_set(MPI_COMM_WORLD, handler);
    MPI_Send(&word, 1, MPI_INT, size, 0, MPI_COMM_WORLD);
    printf(", handled %d\n", handled);
    MPI_Errhandler_free(&handler);
    MPI_Keyval_free(&key);
    MPI_Comm_free(&copy);
    MPI_Type_free(&type);
    MPI_Finalize();
    return 0;
}
