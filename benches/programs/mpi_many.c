/* What many processes of MPI reach, as pvm_many.c does it: WHAT SECONDS TYPE X... */
#include "bench.h"

#include <mpi.h>

enum { DATA = 1, ANSWER };

/* Values of each process in a reduction, gather or scatter, and bytes of a broadcast: 1 KiB. */
#define VALUES 128

static int rank, processes;
static char *out, *in;
static double seconds;
static const char *what;

/* What all do next; rank 0 decides. */
static int ordered(long *x, long *times)
{
    long both[] = { *x, *times };
    MPI_Bcast(both, 2, MPI_LONG, 0, MPI_COMM_WORLD);
    *x = both[0];
    *times = both[1];
    return *times > 0;
}

static void multicast(long size, long times)
{
    for (long i = 0; i < times; i++) {
        MPI_Bcast(rank ? in : out, size, MPI_BYTE, 0, MPI_COMM_WORLD);
        if (rank) MPI_Send(NULL, 0, MPI_BYTE, 0, ANSWER, MPI_COMM_WORLD);
        else for (int n = 1; n < processes; n++)
            MPI_Recv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (rank) verify_once(in, size, 5);
}

static void fan_in(long size, long times)
{
    if (rank) {
        for (long i = 0; i < times; i++) MPI_Send(out, size, MPI_BYTE, 0, DATA, MPI_COMM_WORLD);
    } else {
        for (long i = 0; i < times * (processes - 1); i++)
            MPI_Recv(in, size, MPI_BYTE, MPI_ANY_SOURCE, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        verify_once(in, size, 5);
    }
}

static void rotate(long times)
{
    double values[VALUES], sum[VALUES], *all = memory(VALUES * 8 * processes);
    for (int n = 0; n < VALUES * processes; n++) all[n] = n;
    for (long i = 0; i < times * processes; i++) {
        int turn = i % processes;
        if (!strcmp(what, "reduce")) {
            for (int n = 0; n < VALUES; n++) values[n] = n + 1;
            MPI_Reduce(values, sum, VALUES, MPI_DOUBLE, MPI_SUM, turn, MPI_COMM_WORLD);
            if (turn == rank && sum[VALUES - 1] != (double)VALUES * processes) fail("the sum is wrong");
        } else if (!strcmp(what, "gather")) {
            for (int n = 0; n < VALUES; n++) values[n] = n + rank;
            MPI_Gather(values, VALUES, MPI_DOUBLE, all, VALUES, MPI_DOUBLE, turn, MPI_COMM_WORLD);
            if (turn == rank && all[VALUES * processes - 1] != VALUES - 1 + processes - 1) fail("what was gathered is wrong");
        } else if (!strcmp(what, "scatter")) {
            MPI_Scatter(all, VALUES, MPI_DOUBLE, values, VALUES, MPI_DOUBLE, turn, MPI_COMM_WORLD);
            if (values[VALUES - 1] != VALUES * (rank + 1) - 1) fail("what was scattered is wrong");
        } else {
            MPI_Bcast(turn == rank ? out : in, VALUES * 8, MPI_BYTE, turn, MPI_COMM_WORLD);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    free(all);
}

static void act_together(long x, long times)
{
    if (!strcmp(what, "multicast")) multicast(x, times);
    else if (!strcmp(what, "fanin")) fan_in(x, times);
    else if (!strcmp(what, "barrier")) for (long i = 0; i < times; i++) MPI_Barrier(MPI_COMM_WORLD);
    else rotate(times);
}

static void lead(long x, long times)
{
    ordered(&x, &times);
    act_together(x, times);
}

/* How many things one turn of act_together() is. */
static double things(void)
{
    if (!strcmp(what, "fanin")) return processes - 1;
    return !strcmp(what, "multicast") || !strcmp(what, "barrier") ? 1 : processes;
}

static void together(char **x)
{
    long now_x = 0, times = 0;
    int seed = !strcmp(what, "broadcast") ? 6 : 5;
    if (rank) {
        while (ordered(&now_x, &times)) {
            fill(out, now_x > VALUES * 8 ? now_x : VALUES * 8, seed);
            act_together(now_x, times);
        }
    } else {
        for (; *x; x++) {
            long size = atol(*x);
            fill(out, size > VALUES * 8 ? size : VALUES * 8, seed);
            report(size, timed(lead, size, seconds) / things());
        }
        ordered(&now_x, &times);
    }
    if (!strcmp(what, "broadcast")) verify(in, VALUES * 8, 6);
}

/* Pairs that all play ping-pong with 4 bytes for a time. */
static void crowd(char **x)
{
    int stop = 0, other = rank ^ 1;
    long times = 0;
    double rate = 0, sum;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = now(), end = start + seconds;
    while (!stop) {
        if (rank % 2) {
            MPI_Recv(&stop, 1, MPI_INT, other, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&stop, 1, MPI_INT, other, DATA, MPI_COMM_WORLD);
        } else {
            stop = now() >= end;
            MPI_Send(&stop, 1, MPI_INT, other, DATA, MPI_COMM_WORLD);
            MPI_Recv(&stop, 1, MPI_INT, other, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            times++;
        }
    }
    if (rank % 2 == 0) rate = 2 * times / (now() - start);
    MPI_Reduce(&rate, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) report(atol(*x), processes / 2 / sum);
}

/* Processes that say that they are there, and end. */

static char **arguments;

static void spawn_and_hear(long batch, long times)
{
    MPI_Comm children;
    for (long i = 0; i < times; i++) {
        MPI_Comm_spawn(arguments[0], arguments + 1, batch, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE);
        for (long n = 0; n < batch; n++)
            MPI_Recv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, ANSWER, children, MPI_STATUS_IGNORE);
        MPI_Comm_disconnect(&children);
    }
}

static void spawn(char **x)
{
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Send(NULL, 0, MPI_BYTE, 0, ANSWER, parent);
        MPI_Comm_disconnect(&parent);
        return;
    }
    for (; *x; x++) report(atol(*x), timed(spawn_and_hear, atol(*x), seconds) / atol(*x));
}

int main(int argc, char **argv)
{
    if (argc < 5) fail("usage: WHAT SECONDS TYPE X...");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    arguments = argv;
    what = argv[1];
    seconds = atof(argv[2]);
    out = memory(1 << 20);
    in = memory(1 << 20);
    if (!strcmp(what, "crowd")) crowd(argv + 4);
    else if (!strcmp(what, "spawn")) spawn(argv + 4);
    else together(argv + 4);
    MPI_Finalize();
    return 0;
}
