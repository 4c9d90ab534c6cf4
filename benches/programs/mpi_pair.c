/* What two processes of MPI reach: WHAT SECONDS TYPE X... */
#include "bench.h"

#include <mpi.h>

enum { ORDER = 1, DATA, ANSWER };

static MPI_Datatype type;
static int unit, rank, other;
static char *out, *in;
static double seconds;

static void send_data(char *data, long size)
{
    MPI_Send(data, size / unit, type, other, DATA, MPI_COMM_WORLD);
}

static void receive_data(char *data, long size)
{
    MPI_Recv(data, size / unit, type, other, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* What the other end is to do next: how often, and with which size. */
static void order(long x, long times)
{
    long both[] = { x, times };
    MPI_Send(both, 2, MPI_LONG, other, ORDER, MPI_COMM_WORLD);
}

static int ordered(long *x, long *times)
{
    long both[2];
    MPI_Recv(both, 2, MPI_LONG, other, ORDER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    *x = both[0];
    *times = both[1];
    return *times > 0;
}

/* Ping-pong. */

static void there_and_back(long size, long times)
{
    order(size, times);
    for (long i = 0; i < times; i++) {
        send_data(out, size);
        receive_data(in, size);
    }
}

static void echo(void)
{
    long size, times;
    while (ordered(&size, &times)) {
        for (long i = 0; i < times; i++) {
            receive_data(in, size);
            send_data(in, size);
        }
    }
}

static void pingpong(char **x)
{
    if (rank == 1) echo();
    if (rank != 0) return;
    for (; *x; x++) {
        check_round_trip(there_and_back, atol(*x), out, in);
        report(atol(*x), timed(there_and_back, atol(*x), seconds) / 2);
    }
    order(0, 0);
}

/* Many messages one way, then one back. */

#define FLOOD 64

static void one_way(long size, long times)
{
    order(size, times);
    for (long i = 0; i < times; i++) {
        for (int n = 0; n < FLOOD; n++) send_data(out, size);
        MPI_Recv(NULL, 0, MPI_BYTE, other, ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void drain(void)
{
    long size, times;
    while (ordered(&size, &times)) {
        for (long i = 0; i < times; i++) {
            for (int n = 0; n < FLOOD; n++) receive_data(in, size);
            MPI_Send(NULL, 0, MPI_BYTE, other, ANSWER, MPI_COMM_WORLD);
        }
        verify_once(in, size, 4);
    }
}

static void rate(char **x)
{
    if (rank == 1) drain();
    if (rank != 0) return;
    for (; *x; x++) {
        fill(out, atol(*x), 4);
        report(atol(*x), timed(one_way, atol(*x), seconds) / FLOOD);
    }
    order(0, 0);
}

int main(int argc, char **argv)
{
    if (argc < 5) fail("usage: mpi WHAT SECONDS TYPE X...");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    other = 1 - rank;
    seconds = atof(argv[2]);
    int doubles = !strcmp(argv[3], "double");
    type = doubles ? MPI_DOUBLE : MPI_BYTE;
    unit = doubles ? 8 : 1;
    out = memory(MOST);
    in = memory(MOST);
    char **x = argv + 4;
    if (!strcmp(argv[1], "pingpong")) pingpong(x);
    else if (!strcmp(argv[1], "rate")) rate(x);
    else fail("no such measurement");
    MPI_Finalize();
    return 0;
}
